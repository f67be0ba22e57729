//! The frontmatter of a `SKILL.md`: YAML between `---` lines.
//!
//! Owns leniency. Most errors of the format's reference validator are only warnings here. Only a missing description, or a
//! frontmatter without any key, makes a skill unusable. [`yaml`] reads everything else. Unknown keys are ignored, because other
//! clients define their own.
//!
//! Works on text only; opens no file.

use crate::yaml;
use becket_types::{Fork, TurnTerms, split_frontmatter};
use serde_json::{Map, Value};

/// Maximum size of a frontmatter in bytes.
const MAX_BYTES: usize = 64 * 1024;

const NO_NAME: &str = "it has no name; its folder's is used";

/// The parsed frontmatter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frontmatter {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) when_to_use: Option<String>,
    pub(crate) argument_hint: Option<String>,
    pub(crate) arguments: Vec<String>,
    pub(crate) model_invocable: bool,
    pub(crate) user_invocable: bool,
    pub(crate) hooks: Option<Value>,
    pub(crate) terms: TurnTerms,
    pub(crate) warnings: Vec<String>,
}

/// Parses frontmatter. `folder` is the name of the skill's directory.
///
/// # Errors
///
/// Returns the reason why the skill is skipped.
pub(crate) fn parse(head: &str, folder: &str) -> Result<Frontmatter, String> {
    if head.len() > MAX_BYTES {
        return Err(format!("its frontmatter has {} bytes; at most {MAX_BYTES} are read", head.len()));
    }
    let (map, odd) = yaml::read(head)?;
    let text =
        |keys: &[&str]| keys.iter().find_map(|k| map.get(*k)).and_then(as_text).filter(|t| !t.is_empty());
    let mut out = Frontmatter {
        description: text(&["description"]).ok_or("it has no description")?,
        when_to_use: text(&["when_to_use", "when-to-use"]),
        argument_hint: text(&["argument-hint", "argument_hint"]),
        arguments: words(map.get("arguments")),
        model_invocable: !flag(&map, &["disable-model-invocation", "disable_model_invocation"])
            .unwrap_or(false),
        user_invocable: flag(&map, &["user-invocable", "user_invocable"]).unwrap_or(true),
        terms: terms(&map),
        hooks: map.get("hooks").filter(|hooks| hooks.is_object()).cloned(),
        warnings: odd,
        ..Frontmatter::default()
    };
    let written = text(&["name"]).unwrap_or_else(|| {
        out.warnings.push(NO_NAME.to_owned());
        folder.to_owned()
    });
    out.name = written.to_lowercase();
    if !is_plain_name(&out.name) {
        out.name = plain_name(&out.name);
        if out.name.is_empty() {
            return Err("its name has no letter or digit".to_owned());
        }
        out.warnings.push(format!(
            "its name {written:?} is not 1 to 64 letters, digits and single hyphens; it is listed as `{}`",
            out.name
        ));
    } else if out.name != folder.to_lowercase() {
        out.warnings.push(format!("its name {written:?} is not the name of its folder {folder:?}"));
    }
    let length = out.description.chars().count();
    if length > 1_024 {
        out.warnings.push(format!("its description has {length} characters; 1024 are allowed"));
    }
    Ok(out)
}

/// Converts a name to letters, digits and hyphens. A skill with other characters in its name is listed under the converted name.
pub(crate) fn plain_name(name: &str) -> String {
    let name: String =
        name.to_lowercase().chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).take(64).collect();
    name.trim_matches('-').to_owned()
}

fn is_plain_name(name: &str) -> bool {
    (1..=64).contains(&name.chars().count())
        && name.chars().all(|c| c.is_alphanumeric() || c == '-')
        && !name.starts_with('-')
        && !name.ends_with('-')
        && !name.contains("--")
}

/// Frontmatter of another kind of Markdown file, parsed with the same leniency.
#[derive(Clone, Debug, Default)]
pub struct Head {
    keys: Map<String, Value>,
    /// Deviations from YAML in the text.
    odd: Vec<String>,
}

impl Head {
    /// Makes a head of values that were given in another form.
    pub fn new(keys: Map<String, Value>) -> Self {
        Self { keys, odd: Vec::new() }
    }

    /// Returns a line for each value that is not YAML, and for each key that occurs twice.
    pub fn odd(&self) -> &[String] {
        &self.odd
    }

    /// Returns the value of a key as it was written.
    pub fn value(&self, key: &str) -> Option<&Value> {
        self.keys.get(key).filter(|value| !value.is_null())
    }

    /// Returns all keys that have a value.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.keys.iter().filter(|(_, value)| !value.is_null()).map(|(key, _)| key.as_str())
    }

    /// Splits a text into frontmatter and body; `None` if it does not begin with frontmatter.
    ///
    /// # Errors
    ///
    /// Returns the reason why the frontmatter cannot be parsed.
    pub fn split(text: &str) -> Option<Result<(Self, &str), String>> {
        let (head, body) = split_frontmatter(text)?;
        if head.len() > MAX_BYTES {
            return Some(Err(format!(
                "its frontmatter has {} bytes; at most {MAX_BYTES} are read",
                head.len()
            )));
        }
        Some(yaml::read(head).map(|(keys, odd)| (Self { keys, odd }, body)))
    }

    /// Returns the terms of the turn that a command with this head starts.
    pub fn turn_terms(&self) -> TurnTerms {
        terms(&self.keys)
    }

    /// Returns the text of a key, on one line; `None` if it has none.
    pub fn text(&self, key: &str) -> Option<String> {
        self.keys.get(key).and_then(as_text).filter(|text| !text.is_empty())
    }

    /// Returns the words of a key: the entries of a list, or the parts of a text that spaces or commas separate. `None` if the key
    /// is missing.
    pub fn words(&self, key: &str) -> Option<Vec<String>> {
        self.keys
            .get(key)
            .filter(|value| !value.is_null() && !value.is_object())
            .map(|value| words(Some(value)))
    }
}

/// Levels that the key `effort` accepts. Another value is ignored, because the file may have been written for another version.
const EFFORTS: [&str; 5] = ["low", "medium", "high", "xhigh", "max"];

/// Returns the keys `allowed-tools`, `model`, `effort`, `context` and `agent`.
fn terms(map: &Map<String, Value>) -> TurnTerms {
    let allow = match ["allowed-tools", "allowed_tools"].iter().find_map(|key| map.get(*key)) {
        Some(Value::Array(rules)) => rules.iter().filter_map(as_text).collect(),
        Some(rules) => as_text(rules).into_iter().filter(|rules| !rules.is_empty()).collect(),
        None => Vec::new(),
    };
    let model = map.get("model").and_then(as_text);
    let effort = map.get("effort").and_then(as_text).map(|effort| effort.to_ascii_lowercase());
    let forks =
        map.get("context").and_then(as_text).is_some_and(|context| context.eq_ignore_ascii_case("fork"));
    let agent = map.get("agent").and_then(as_text).filter(|agent| !agent.is_empty());
    TurnTerms {
        allow,
        model: model.filter(|model| !matches!(model.as_str(), "" | "inherit" | "default")),
        effort: effort.filter(|effort| EFFORTS.contains(&effort.as_str())),
        fork: forks.then(|| Fork { agent, prompt: String::new() }),
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::String(s) => Some(s.split_whitespace().collect::<Vec<_>>().join(" ")),
        Value::Number(n) => Some(n.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Array(list) => Some(list.iter().filter_map(as_text).collect::<Vec<_>>().join(" ")),
        _ => None,
    }
}

fn words(value: Option<&Value>) -> Vec<String> {
    let text = value.and_then(as_text).unwrap_or_default();
    text.split([' ', ',']).filter(|w| !w.is_empty()).map(str::to_owned).collect()
}

fn flag(map: &Map<String, Value>, keys: &[&str]) -> Option<bool> {
    match keys.iter().find_map(|k| map.get(*k))? {
        Value::Bool(b) => Some(*b),
        Value::String(s) => Some(matches!(s.to_ascii_lowercase().as_str(), "true" | "yes" | "on")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn plain(name: &str, description: &str) -> Frontmatter {
        Frontmatter {
            name: name.into(),
            description: description.into(),
            model_invocable: true,
            user_invocable: true,
            ..Frontmatter::default()
        }
    }

    #[test]
    fn heads_of_other_files() {
        let text =
            "---\nname: a\ntools: Read, Grep\nskills: [x, z]\ndescription: Use: it\nmodel:\n---\nBody\n";
        let (head, body) = Head::split(text).unwrap().unwrap();
        assert_eq!((head.text("name").as_deref(), body), (Some("a"), "Body\n"));
        assert_eq!(head.words("tools").unwrap(), ["Read", "Grep"]);
        assert_eq!(head.words("skills").unwrap(), ["x", "z"]);
        assert_eq!((head.text("model"), head.words("model"), head.words("none")), (None, None, None));
        assert!(Head::split("no head").is_none());
        for (text, want) in [
            ("context: fork\nagent: Explore\n", Some(Some("Explore"))),
            ("context: Fork\n", Some(None)),
            ("context: inline\nagent: Explore\n", None),
            ("agent: Explore\n", None),
        ] {
            let text = format!("---\n{text}---\n");
            let fork = Head::split(&text).unwrap().unwrap().0.turn_terms().fork;
            let want = want.map(|agent| Fork { agent: agent.map(str::to_owned), prompt: String::new() });
            assert_eq!(fork, want, "{text}");
        }
        assert!(Head::split("---\n[\n---\n").unwrap().is_err());
    }

    #[test]
    fn heads_table() {
        for (head, want) in [
            ("name: x\ndescription: does x\n", plain("x", "does x")),
            ("name: x\ndescription: Use when: always # no comment\n", plain("x", "Use when: always")),
            ("name: x\ndescription: Use: it's \"fine\"\n", plain("x", "Use: it's \"fine\"")),
            ("name: x\ndescription: >\n  two\n  lines\n", plain("x", "two lines")),
            ("name: x\ndescription: d\nmetadata:\n  a: b\nunknown: [1, 2]\n", plain("x", "d")),
            (
                "name: X\ndescription: d\ndisable-model-invocation: true\nuser-invocable: false\narguments: a b\nargument-hint: '[a]'\nwhen_to_use: often\n",
                Frontmatter {
                    model_invocable: false,
                    user_invocable: false,
                    arguments: vec!["a".into(), "b".into()],
                    argument_hint: Some("[a]".into()),
                    when_to_use: Some("often".into()),
                    ..plain("x", "d")
                },
            ),
            (
                "description: d\n",
                Frontmatter {
                    warnings: vec!["it has no name; its folder's is used".into()],
                    ..plain("x", "d")
                },
            ),
            (
                "name: other\ndescription: d\n",
                Frontmatter {
                    warnings: vec!["its name \"other\" is not the name of its folder \"x\"".into()],
                    ..plain("other", "d")
                },
            ),
            (
                "name: a b--c\ndescription: d\n",
                Frontmatter {
                    warnings: vec![
                        "its name \"a b--c\" is not 1 to 64 letters, digits and single hyphens; it is listed as `a-b--c`".into(),
                    ],
                    ..plain("a-b--c", "d")
                },
            ),
        ] {
            let got = parse(head, "x");
            // `#` starts a YAML comment, unless the value contains a colon: then the whole value is taken as
            // text.
            let want = if head.contains("# no comment") {
                plain("x", "Use when: always # no comment")
            } else {
                want
            };
            assert_eq!(got, Ok(want), "{head}");
        }
    }

    #[test]
    fn what_is_left_out_says_why() {
        for (head, want) in [
            ("name: x\n", "it has no description"),
            ("", "it has no description"),
            ("- a\n- b\n", "its frontmatter is not a mapping"),
            ("[x\n", "its frontmatter is not YAML"),
            ("name: '...'\ndescription: d\n", "its name has no letter or digit"),
        ] {
            let error = parse(head, "x").unwrap_err();
            assert!(error.starts_with(want), "{head}: {error}");
        }
    }

    #[test]
    fn alias_bombs_are_bounded() {
        let mut bomb = String::from("description: d\na: &a [x,x,x,x,x,x,x,x,x]\n");
        for (from, to) in ('a'..='k').zip('b'..='l') {
            let refs = vec![format!("*{from}"); 9].join(",");
            bomb = format!("{bomb}{to}: &{to} [{refs}]\n");
        }
        assert!(serde_saphyr::from_str::<Value>(&bomb).is_err());
        // With its values quoted, this frontmatter is plain text and does not expand.
        assert_eq!(parse(&bomb, "x"), Ok(Frontmatter { warnings: vec![NO_NAME.into()], ..plain("x", "d") }));
    }

    proptest! {
        #[test]
        fn no_head_panics(head in "([a-z#:'\"|>&*!%@`{}\\[\\],\n -]{0,60}\n?){0,4}") {
            let _ = parse(&head, "x");
            let _ = split_frontmatter(&format!("---\n{head}"));
        }
    }
}
