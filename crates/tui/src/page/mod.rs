//! A page as data: headings, fields, bars, tables and notes. The host fills it, and one renderer lays it out (`draw`).
//!
//! Invariants: no row is wider than the terminal, at any width. Every share has its own mark, so that it is
//! recognizable without colours. Knows nothing about sessions.

mod draw;
mod fit;

pub use fit::path as fit_path;

use crate::status::meter::Part;

/// A page, from top to bottom.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sheet {
    pub items: Vec<Item>,
}

/// A part of a page.
#[derive(Clone, Debug, PartialEq)]
pub enum Item {
    /// Starts a section. An empty row precedes it, unless it is the first row.
    Heading {
        text: String,
        /// Shown dimmed on the same row.
        detail: String,
    },
    Field(Field),
    /// One bar over the whole width: the parts of `of`, and a mark at the compaction threshold.
    Bar {
        parts: Vec<(Part, u64)>,
        of: u64,
        mark: Option<u64>,
    },
    /// Shares of a whole, one row each, with a bar.
    Shares {
        of: u64,
        rows: Vec<Share>,
    },
    Table {
        columns: Vec<Column>,
        rows: Vec<TableRow>,
    },
    /// Values over time, the last one on the right.
    Plot {
        values: Vec<u64>,
    },
    /// Names with their meanings, one below the other: keys or commands.
    Entries(Vec<Entry>),
    /// A dimmed paragraph.
    Note(String),
}

/// A key or a command, and what it does.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub arguments: String,
    pub meaning: String,
    /// The meaning is what the reader looks for, such as the value of a setting, so it is not dimmed.
    pub prominent: bool,
    /// Shown dimmed after the meaning; below it if it does not fit there whole.
    pub detail: String,
}

impl Entry {
    /// Creates an entry.
    pub fn new(name: &str, arguments: &str, meaning: &str) -> Self {
        let [name, arguments, meaning] = [name, arguments, meaning].map(str::to_owned);
        Self { name, arguments, meaning, prominent: false, detail: String::new() }
    }

    /// Draws the meaning like text.
    #[must_use]
    pub fn prominent(self) -> Self {
        Self { prominent: true, ..self }
    }

    /// Adds a detail, such as the source of a setting.
    #[must_use]
    pub fn with_detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }
}

/// A label and its value. The values of neighbouring fields are aligned.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    pub state: State,
    pub label: String,
    pub value: Value,
}

/// Mark before a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    None,
    Good,
    Bad,
}

/// Value of a field.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Wrapped at words.
    Text(String),
    /// A path in one row. If it is too long, its beginning is left out.
    Path(String),
}

/// A row of [`Item::Shares`].
#[derive(Clone, Debug, PartialEq)]
pub struct Share {
    pub part: Part,
    pub label: Cell,
    /// The share's part of the whole.
    pub amount: u64,
    /// The amount in words.
    pub value: String,
    /// Left out if there is no room.
    pub detail: String,
}

/// Column of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    pub title: String,
    /// The cells are aligned to the right.
    pub right: bool,
    /// The column may be cut. A table needs one such column to fit narrow terminals.
    pub flexible: bool,
    /// Text that is too long for the column continues below. Otherwise it is cut.
    pub wraps: bool,
    /// The column takes the remaining room and is less important than the others.
    pub faint: bool,
    /// Columns with a lower weight are left out first if there is too little room.
    pub weight: u8,
}

impl Column {
    /// A column of numbers.
    pub fn number(title: &str, weight: u8) -> Self {
        Self { title: title.to_owned(), right: true, flexible: false, wraps: false, faint: false, weight }
    }

    /// A column of short words.
    pub fn word(title: &str, weight: u8) -> Self {
        Self { title: title.to_owned(), right: false, flexible: false, wraps: false, faint: false, weight }
    }

    /// A column of text or paths, which takes the remaining room.
    pub fn text(title: &str) -> Self {
        Self {
            title: title.to_owned(),
            right: false,
            flexible: true,
            wraps: false,
            faint: false,
            weight: u8::MAX,
        }
    }

    /// A column of text that is less important, which takes the remaining room.
    pub fn faint(title: &str) -> Self {
        Self { faint: true, ..Self::text(title) }
    }

    /// A column of sentences, which takes the remaining room and shows all of each text.
    pub fn sentences(title: &str) -> Self {
        Self { wraps: true, ..Self::text(title) }
    }
}

/// Row of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableRow {
    /// Mark of the row. If no row has one, the table has no column for it.
    pub part: Option<Part>,
    /// One cell for each column. A row without cells consists of its note.
    pub cells: Vec<Cell>,
    /// Shown below the row.
    pub note: String,
}

/// Cell of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Text that is cut at its end if it is too long.
    Text(String),
    /// A path that is cut at its beginning if it is too long.
    Path(String),
}

impl Default for Cell {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl Sheet {
    /// Adds a heading.
    pub fn heading(&mut self, text: &str, detail: impl Into<String>) {
        self.items.push(Item::Heading { text: text.to_owned(), detail: detail.into() });
    }

    /// Adds a field with text.
    pub fn field(&mut self, label: &str, value: impl Into<String>) {
        self.put(State::None, label, Value::Text(value.into()));
    }

    /// Adds a field with a path.
    pub fn path(&mut self, label: &str, path: impl Into<String>) {
        self.put(State::None, label, Value::Path(path.into()));
    }

    /// Adds the result of a check.
    pub fn check(&mut self, good: bool, label: &str, value: impl Into<String>) {
        self.put(if good { State::Good } else { State::Bad }, label, Value::Text(value.into()));
    }

    fn put(&mut self, state: State, label: &str, value: Value) {
        self.items.push(Item::Field(Field { state, label: label.to_owned(), value }));
    }

    /// Adds keys or commands with their meanings.
    pub fn entries(&mut self, entries: Vec<Entry>) {
        self.items.push(Item::Entries(entries));
    }

    /// Adds a note.
    pub fn note(&mut self, text: impl Into<String>) {
        self.items.push(Item::Note(text.into()));
    }
}
