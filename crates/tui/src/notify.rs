//! Desktop notifications: the escape sequence that the terminal understands.
//!
//! Pure. The caller knows which kind the terminal supports, and the app knows if the user is looking.

/// Kind of notification that the terminal supports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Notifications {
    Off,
    #[default]
    Bell,
    /// `OSC 9`: iTerm2, Windows Terminal, Ghostty, WezTerm.
    Osc9,
    /// `OSC 99`: kitty.
    Osc99,
    /// `OSC 777`: rxvt-unicode, foot, VTE.
    Osc777,
}

impl Notifications {
    /// Names for the configuration, in the order of the kinds.
    pub const NAMES: [&'static str; 5] = ["off", "bell", "osc9", "osc99", "osc777"];

    /// Returns the kind with this name.
    pub fn by_name(name: &str) -> Option<Self> {
        let all = [Self::Off, Self::Bell, Self::Osc9, Self::Osc99, Self::Osc777];
        Self::NAMES.iter().position(|n| *n == name).map(|i| all[i])
    }

    /// Returns the bytes that notify with `text`. Characters that would end the sequence are removed from the text.
    pub fn sequence(self, text: &str) -> String {
        let text: String = text.chars().filter(|c| !c.is_control() && *c != ';').take(120).collect();
        match self {
            Self::Off => String::new(),
            Self::Bell => "\x07".to_owned(),
            Self::Osc9 => format!("\x1b]9;becket: {text}\x1b\\"),
            Self::Osc99 => format!("\x1b]99;;becket: {text}\x1b\\"),
            Self::Osc777 => format!("\x1b]777;notify;becket;{text}\x1b\\"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_is_one_sequence_whatever_it_says() {
        assert_eq!(Notifications::by_name("osc9"), Some(Notifications::Osc9));
        assert_eq!(Notifications::by_name("loud"), None);
        let text = "done\x1b\\\x07;\nnow";
        assert_eq!(Notifications::Osc9.sequence(text), "\x1b]9;becket: done\\now\x1b\\");
        assert_eq!(Notifications::Osc777.sequence("done"), "\x1b]777;notify;becket;done\x1b\\");
        assert_eq!(Notifications::Off.sequence("x"), "");
    }
}
