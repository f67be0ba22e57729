//! Shell text as simple commands: words, redirections, and the scripts nested in them.
//!
//! Tolerant: anything is taken for something. Quotes are decoded; what depends on the run (`$x`, braces) makes a word
//! [`Word::dynamic`], a pattern makes it [`Word::glob`]. Nested scripts (`$(…)`, backquotes, `<(…)`) come out apart.

/// One word.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Word {
    pub text: String,
    pub glob: bool,
    pub dynamic: bool,
}

/// One command with its redirections.
#[derive(Clone, Debug, Default)]
pub(super) struct Simple {
    pub words: Vec<Word>,
    /// Files that are opened for writing.
    pub writes: Vec<Word>,
    /// Text on its standard input.
    pub input: Option<String>,
    /// Reads from a pipe.
    pub piped: bool,
}

/// Takes a script apart; nested scripts are put behind the commands they stand in.
pub(super) fn lex(source: &str) -> (Vec<Simple>, Vec<String>) {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        out: Vec::new(),
        nested: Vec::new(),
        here: Vec::new(),
    };
    lexer.run();
    (lexer.out, lexer.nested)
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    out: Vec<Simple>,
    nested: Vec<String>,
    /// Here-documents whose text begins behind the line: index of the command, delimiter.
    here: Vec<(usize, String)>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn run(&mut self) {
        let mut now = Simple::default();
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\r' => self.at += 1,
                '\\' if self.peek(1) == Some('\n') => self.at += 2,
                '#' => {
                    while self.peek(0).is_some_and(|c| c != '\n') {
                        self.at += 1;
                    }
                }
                '\n' => {
                    self.at += 1;
                    self.end(&mut now, false);
                    self.documents();
                }
                '&' if self.peek(1) == Some('>') => {
                    self.at += 2;
                    self.write(&mut now);
                }
                '|' if self.peek(1) != Some('|') => {
                    self.at += 1;
                    self.end(&mut now, true);
                }
                ';' | '&' | '|' => {
                    self.at += 1;
                    self.end(&mut now, false);
                }
                '(' | ')' => {
                    self.at += 1;
                    self.end(&mut now, false);
                }
                '>' if self.peek(1) != Some('(') => {
                    self.at += 1;
                    self.write(&mut now);
                }
                '<' if self.peek(1) == Some('<') => self.here(&mut now),
                '<' if self.peek(1) == Some('>') => {
                    self.at += 2;
                    self.write(&mut now);
                }
                '<' if self.peek(1) != Some('(') => {
                    self.at += 1;
                    self.blanks();
                    if self.peek(0) == Some('&') {
                        self.at += 1;
                    }
                    self.word();
                }
                _ => {
                    let word = self.word();
                    let digits = !word.text.is_empty() && word.text.chars().all(|c| c.is_ascii_digit());
                    if !(digits && matches!(self.peek(0), Some('<' | '>'))) {
                        now.words.push(word);
                    }
                }
            }
        }
        self.end(&mut now, false);
        self.documents();
    }

    fn end(&mut self, now: &mut Simple, pipe: bool) {
        let done = std::mem::replace(now, Simple { piped: pipe, ..Simple::default() });
        if !done.words.is_empty() || !done.writes.is_empty() || done.input.is_some() {
            self.out.push(done);
        }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(0), Some(' ' | '\t')) {
            self.at += 1;
        }
    }

    /// Behind `>`: the rest of the operator and the file.
    fn write(&mut self, now: &mut Simple) {
        while matches!(self.peek(0), Some('>' | '|' | '&' | '!')) {
            self.at += 1;
        }
        self.blanks();
        let word = self.word();
        let number = word.text == "-" || word.text.chars().all(|c| c.is_ascii_digit());
        if word.dynamic || !number {
            now.writes.push(word);
        }
    }

    /// `<<WORD`, `<<-WORD`, `<<<WORD`.
    fn here(&mut self, now: &mut Simple) {
        self.at += 2;
        let string = self.peek(0) == Some('<');
        if string || self.peek(0) == Some('-') {
            self.at += 1;
        }
        self.blanks();
        let word = self.word();
        if string {
            now.input = Some(word.text);
        } else {
            self.here.push((self.out.len(), word.text));
        }
    }

    /// The texts of here-documents that begin here.
    fn documents(&mut self) {
        for (command, delimiter) in std::mem::take(&mut self.here) {
            let mut text = String::new();
            while self.at < self.chars.len() {
                let line: String = self.chars.iter().skip(self.at).take_while(|c| **c != '\n').collect();
                self.at += line.chars().count() + 1;
                if line.trim_start_matches('\t') == delimiter {
                    break;
                }
                text.push_str(&line);
                text.push('\n');
            }
            if let Some(simple) = self.out.get_mut(command) {
                simple.input = Some(text);
            }
        }
    }

    fn word(&mut self) -> Word {
        let mut word = Word::default();
        let from = self.at;
        while let Some(c) = self.peek(0) {
            match c {
                ' ' | '\t' | '\n' | '\r' | ';' | '|' | '&' => break,
                '(' if self.at > from => self.nest(1, &mut word),
                '<' | '>' if self.peek(1) == Some('(') && self.at == from => self.nest(2, &mut word),
                '(' | ')' | '<' | '>' => break,
                '\'' => {
                    self.at += 1;
                    self.until_quote(&mut word);
                }
                '"' => {
                    self.at += 1;
                    self.quoted(&mut word);
                }
                '\\' => {
                    self.at += 1;
                    if let Some(c) = self.peek(0).filter(|c| *c != '\n') {
                        word.text.push(c);
                    }
                    self.at += 1;
                }
                '$' | '`' => self.expansion(&mut word),
                _ => {
                    word.glob |= matches!(c, '*' | '?' | '[');
                    word.dynamic |= c == '{' && self.at > from;
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
        if self.at == from {
            self.at += 1;
        }
        word
    }

    fn until_quote(&mut self, word: &mut Word) {
        while let Some(c) = self.peek(0) {
            self.at += 1;
            if c == '\'' {
                break;
            }
            word.text.push(c);
        }
    }

    fn quoted(&mut self, word: &mut Word) {
        while let Some(c) = self.peek(0) {
            match c {
                '"' => {
                    self.at += 1;
                    break;
                }
                '\\' => {
                    if let Some(next) = self.peek(1) {
                        if !matches!(next, '"' | '\\' | '$' | '`' | '\n') {
                            word.text.push('\\');
                        }
                        word.text.push(next);
                    }
                    self.at += 2;
                }
                '$' | '`' => self.expansion(word),
                _ => {
                    word.text.push(c);
                    self.at += 1;
                }
            }
        }
    }

    fn expansion(&mut self, word: &mut Word) {
        match (self.peek(0), self.peek(1)) {
            (Some('$'), Some('(')) => self.nest(2, word),
            (Some('$'), Some('\'')) => {
                self.at += 2;
                word.dynamic = true;
                self.until_quote(word);
            }
            (Some('`'), _) => {
                self.at += 1;
                let text: String = self.chars.iter().skip(self.at).take_while(|c| **c != '`').collect();
                self.at += text.chars().count() + 1;
                self.nested.push(text);
                word.dynamic = true;
            }
            _ => {
                word.dynamic |= self.peek(1).is_some_and(|c| c.is_alphanumeric() || "_{@*#?$!-".contains(c));
                word.text.push('$');
                self.at += 1;
            }
        }
    }

    /// A script in parentheses, `skip` characters from here.
    fn nest(&mut self, skip: usize, word: &mut Word) {
        self.at += skip;
        let (from, mut depth) = (self.at, 1);
        while let Some(c) = self.peek(0) {
            self.at += 1;
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                '\'' => {
                    while self.peek(0).is_some_and(|c| c != '\'') {
                        self.at += 1;
                    }
                }
                _ => {}
            }
            if c == '\'' {
                self.at += 1;
            }
            if depth == 0 {
                break;
            }
        }
        let end = self
            .at
            .min(self.chars.len())
            .saturating_sub(usize::from(depth == 0))
            .max(from.min(self.chars.len()));
        self.nested.push(self.chars.get(from..end).unwrap_or_default().iter().collect());
        word.dynamic = true;
    }
}
