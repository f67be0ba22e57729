//! Changes of a notebook's cells in its text: replaces, inserts and deletes one cell, and keeps every other byte.
//!
//! Pure: text in, text out. New values take the form of those around them: line breaks, indentation, a source as one text
//! or as a list of lines. A code cell whose source changes loses its outputs and its execution count, as they no longer
//! belong to it.

use super::spans::{blank, elements, member, members};
use serde_json::Value;
use std::ops::Range;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CellKind {
    Code,
    Markdown,
    Raw,
}

impl CellKind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Markdown => "markdown",
            Self::Raw => "raw",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Self> {
        [Self::Code, Self::Markdown, Self::Raw].into_iter().find(|kind| kind.as_str() == name)
    }
}

/// A notebook's text with the places of its cells.
pub(super) struct Notebook<'a> {
    text: &'a str,
    parsed: Value,
    /// Range of the array of cells in `text`.
    list: Range<usize>,
    /// Range of each cell in `text`.
    cells: Vec<Range<usize>>,
    /// Line break for lines that are added: `\r\n` if the text has one.
    ending: &'static str,
}

impl<'a> Notebook<'a> {
    /// Reads a notebook. `None` if the text is not a notebook.
    pub(super) fn read(text: &'a str) -> Option<Self> {
        let body = text.strip_prefix('\u{feff}').unwrap_or(text);
        let parsed: Value = serde_json::from_str(body).ok()?;
        parsed.get("cells")?.as_array()?;
        let start = blank(text.as_bytes(), text.len() - body.len());
        let list = member(text, start, "cells")?;
        let cells = elements(text, list.start);
        let ending = if text.contains("\r\n") { "\r\n" } else { "\n" };
        Some(Self { text, parsed, list, cells, ending })
    }

    fn parsed(&self, index: usize) -> &Value {
        self.parsed.get("cells").and_then(|cells| cells.get(index)).unwrap_or(&Value::Null)
    }

    /// Finds a cell by its id, or by its number from 1 as `read` shows it: `3`, `cell 3`, `cell-3`.
    ///
    /// # Errors
    ///
    /// Returns a message for the model.
    pub(super) fn find(&self, cell: &str) -> Result<usize, String> {
        let count = self.cells.len();
        let named = (0..count).find(|index| self.id(*index) == Some(cell));
        let number = cell.trim().trim_start_matches("cell").trim_start_matches(['-', ' ']).parse::<usize>();
        let numbered = number.ok().and_then(|number| number.checked_sub(1)).filter(|index| *index < count);
        named.or(numbered).ok_or_else(|| {
            format!("There is no cell {cell:?}: the notebook has {count} cells, numbered from 1. Nothing was changed.")
        })
    }

    pub(super) fn id(&self, index: usize) -> Option<&str> {
        self.parsed(index).get("id").and_then(Value::as_str)
    }

    pub(super) fn kind(&self, index: usize) -> Option<CellKind> {
        self.parsed(index).get("cell_type").and_then(Value::as_str).and_then(CellKind::from_name)
    }

    pub(super) fn language(&self) -> &str {
        let named = |at: &str| self.parsed.pointer(at).and_then(Value::as_str);
        named("/metadata/kernelspec/language")
            .or_else(|| named("/metadata/language_info/name"))
            .unwrap_or("python")
    }

    pub(super) fn source(&self, index: usize) -> String {
        match self.parsed(index).get("source") {
            Some(Value::Array(lines)) => lines.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(text)) => text.clone(),
            _ => String::new(),
        }
    }

    /// Returns the notebook's text with a new source for one cell, and a new kind if `kind` is given.
    pub(super) fn replaced(&self, index: usize, source: &str, kind: Option<CellKind>) -> Option<String> {
        let cell = self.cells.get(index)?.clone();
        let old = self.kind(index);
        let kind = kind.or(old).unwrap_or(CellKind::Code);
        let mut cuts: Vec<(Range<usize>, String)> = Vec::new();
        let found = members(self.text, cell.start);
        let place =
            |name: &str| found.iter().find(|(known, ..)| known == name).map(|(_, _, value)| value.clone());
        let at_source = place("source")?;
        cuts.push((at_source.clone(), self.source_like(source, &at_source)));
        if old != Some(kind) {
            cuts.push((place("cell_type")?, format!("\"{}\"", kind.as_str())));
        }
        match (kind, place("outputs"), place("execution_count")) {
            (CellKind::Code, outputs, count) => {
                let key = found.first().map_or(cell.start..cell.start, |(_, key, _)| key.clone());
                let between = self.between_members(&found);
                for (value, name, empty) in [(outputs, "outputs", "[]"), (count, "execution_count", "null")] {
                    match value {
                        Some(value) => cuts.push((value, empty.to_owned())),
                        // The notebook format requires both members in a code cell.
                        None => cuts.push((key.start..key.start, format!("\"{name}\": {empty},{between}"))),
                    }
                }
            }
            _ => cuts.extend(["outputs", "execution_count"].iter().filter_map(|name| {
                let at = found.iter().position(|(known, ..)| known == name)?;
                Some((Self::without(&found, at, &cell), String::new()))
            })),
        }
        Some(self.cut(cuts))
    }

    /// Returns the notebook's text with a new cell, after the cell `after` or as the first one.
    pub(super) fn inserted(&self, after: Option<usize>, source: &str, kind: CellKind) -> String {
        let cell = self.new_cell(source, kind, after);
        let lead = self.lead();
        let (at, text) = match after.and_then(|index| self.cells.get(index)) {
            Some(before) => (before.end, format!(",{lead}{cell}")),
            None => match self.cells.first() {
                Some(first) => (first.start, format!("{cell},{lead}")),
                None => {
                    let close = self.list.end - 1;
                    let tail = lead.strip_suffix(&self.unit()).unwrap_or(&lead).to_owned();
                    return self.cut(vec![(self.list.start + 1..close, format!("{lead}{cell}{tail}"))]);
                }
            },
        };
        self.cut(vec![(at..at, text)])
    }

    /// Returns the notebook's text without one cell.
    pub(super) fn deleted(&self, index: usize) -> Option<String> {
        let cell = self.cells.get(index)?;
        let range = match (self.cells.get(index + 1), index.checked_sub(1).and_then(|at| self.cells.get(at)))
        {
            (Some(next), _) => cell.start..next.start,
            (None, Some(before)) => before.end..cell.end,
            (None, None) => self.list.start + 1..self.list.end - 1,
        };
        Some(self.cut(vec![(range, String::new())]))
    }

    fn cut(&self, mut cuts: Vec<(Range<usize>, String)>) -> String {
        cuts.sort_by_key(|(range, _)| (range.start, range.end));
        let mut out = String::with_capacity(self.text.len());
        let mut done = 0;
        for (range, text) in cuts {
            if range.start < done {
                continue;
            }
            out.push_str(&self.text[done..range.start]);
            out.push_str(&text);
            done = range.end;
        }
        out.push_str(&self.text[done..]);
        out
    }

    /// Returns the range of a member together with the comma that separates it from its neighbour.
    fn without(
        found: &[(String, Range<usize>, Range<usize>)],
        at: usize,
        cell: &Range<usize>,
    ) -> Range<usize> {
        let own = &found[at];
        match (found.get(at + 1), at.checked_sub(1).and_then(|before| found.get(before))) {
            (Some(next), _) => own.1.start..next.1.start,
            (None, Some(before)) => before.2.end..own.2.end,
            (None, None) => cell.start + 1..cell.end - 1,
        }
    }

    /// Returns the white space between two members of a cell.
    fn between_members(&self, found: &[(String, Range<usize>, Range<usize>)]) -> String {
        match found {
            [first, second, ..] => self.text[first.2.end..second.1.start].trim_start_matches(',').to_owned(),
            _ => " ".to_owned(),
        }
    }

    /// Returns the white space before each cell.
    fn lead(&self) -> String {
        match self.cells.first() {
            Some(first) => self.text[self.list.start + 1..first.start].to_owned(),
            None => {
                // The list is a member of the notebook, so its cells are two units deep.
                let unit = self.unit();
                if unit.is_empty() { String::new() } else { format!("{}{unit}{unit}", self.ending) }
            }
        }
    }

    /// Returns one level of indentation, which is empty in a text of one line.
    fn unit(&self) -> String {
        let from = self.text.find('{').map_or(0, |at| at + 1);
        let space = &self.text[from..blank(self.text.as_bytes(), from)];
        space.rsplit_once('\n').map(|(_, unit)| unit.to_owned()).unwrap_or_default()
    }

    /// Returns `source` as JSON in the form of the value at `old`: one string, or a list of lines with the same white space between them.
    fn source_like(&self, source: &str, old: &Range<usize>) -> String {
        if self.text[old.clone()].starts_with('"') {
            return quoted(source);
        }
        let (lead, between, tail) = match &elements(self.text, old.start)[..] {
            [first, .., last] => {
                let next = elements(self.text, old.start)[1].start;
                (
                    self.text[old.start + 1..first.start].to_owned(),
                    self.text[first.end..next].to_owned(),
                    self.text[last.end..old.end - 1].to_owned(),
                )
            }
            [only] => {
                let lead = self.text[old.start + 1..only.start].to_owned();
                (lead.clone(), format!(",{lead}"), self.text[only.end..old.end - 1].to_owned())
            }
            [] => {
                let line = self.text[..old.start].rsplit_once('\n').map_or("", |(_, line)| line);
                let indent = &line[..line.len() - line.trim_start().len()];
                let unit = self.unit();
                if unit.is_empty() {
                    (String::new(), ", ".to_owned(), String::new())
                } else {
                    let lead = format!("{}{indent}{unit}", self.ending);
                    (lead.clone(), format!(",{lead}"), format!("{}{indent}", self.ending))
                }
            }
        };
        listed(source, &lead, &between, &tail)
    }

    /// Returns a new cell as text.
    fn new_cell(&self, source: &str, kind: CellKind, after: Option<usize>) -> String {
        let unit = self.unit();
        let lead = self.lead();
        let (open, inner) = match lead.rsplit_once('\n') {
            Some((_, indent)) if !unit.is_empty() => {
                (format!("{}{indent}", self.ending), format!("{}{indent}{unit}", self.ending))
            }
            _ => (String::new(), String::new()),
        };
        let flat = inner.is_empty();
        let between = if flat { ", ".to_owned() } else { format!(",{inner}") };
        let as_text =
            (0..self.cells.len()).any(|index| self.parsed(index).get("source").is_some_and(Value::is_string));
        let source = if as_text {
            quoted(source)
        } else if flat {
            listed(source, "", ", ", "")
        } else {
            listed(source, &format!("{inner}{unit}"), &format!(",{inner}{unit}"), &inner)
        };
        let mut parts = vec![format!("\"cell_type\": \"{}\"", kind.as_str())];
        if kind == CellKind::Code {
            parts.push("\"execution_count\": null".to_owned());
        }
        parts.extend(self.new_id(after, &source).map(|id| format!("\"id\": \"{id}\"")));
        parts.push("\"metadata\": {}".to_owned());
        if kind == CellKind::Code {
            parts.push("\"outputs\": []".to_owned());
        }
        parts.push(format!("\"source\": {source}"));
        format!("{{{inner}{}{open}}}", parts.join(&between))
    }

    /// Returns an id for a new cell, if the notebook's format has ids.
    fn new_id(&self, after: Option<usize>, source: &str) -> Option<String> {
        let number = |name: &str| self.parsed.get(name).and_then(Value::as_u64).unwrap_or_default();
        if (number("nbformat"), number("nbformat_minor")) < (4, 5) {
            return None;
        }
        let taken = |id: &str| (0..self.cells.len()).any(|index| self.id(index) == Some(id));
        (0_usize..).find_map(|round| {
            let seed = format!("{round} {after:?} {} {source}", self.cells.len());
            let id = becket_tool::sha256(seed.as_bytes()).get(..8)?.to_owned();
            (!taken(&id)).then_some(id)
        })
    }
}

fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// Returns a JSON list of the source's lines. `lead`, `between` and `tail` are the text before, between and after the items.
fn listed(source: &str, lead: &str, between: &str, tail: &str) -> String {
    let lines: Vec<String> = source.split_inclusive('\n').map(quoted).collect();
    if lines.is_empty() { "[]".to_owned() } else { format!("[{lead}{}{tail}]", lines.join(between)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOTEBOOK: &str = "{\n \"cells\": [\n  {\n   \"cell_type\": \"markdown\",\n   \"id\": \"aa\",\n   \"metadata\": {},\n   \
        \"source\": [\n    \"# T\\n\",\n    \"text\"\n   ]\n  },\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": 3,\n   \
        \"id\": \"bb\",\n   \"metadata\": {\"odd\":  1},\n   \"outputs\": [{\"output_type\": \"stream\"}],\n   \"source\": []\n  }\n ],\n \
        \"metadata\": {\"z\": 1, \"a\": \"\\u00e9\"},\n \"nbformat\": 4,\n \"nbformat_minor\": 5\n}\n";

    fn value(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn a_source_is_replaced_and_the_rest_stays() {
        let notebook = Notebook::read(NOTEBOOK).unwrap();
        let text = notebook.replaced(0, "a\nb\nc", None).unwrap();
        assert_eq!(
            text,
            NOTEBOOK.replace("\"# T\\n\",\n    \"text\"", "\"a\\n\",\n    \"b\\n\",\n    \"c\"")
        );
        let text = notebook.replaced(1, "x = 1\n", None).unwrap();
        let want = NOTEBOOK
            .replace("\"execution_count\": 3", "\"execution_count\": null")
            .replace("[{\"output_type\": \"stream\"}]", "[]")
            .replace("\"source\": []", "\"source\": [\n    \"x = 1\\n\"\n   ]");
        assert_eq!(text, want);
    }

    #[test]
    fn a_cell_takes_another_kind() {
        let notebook = Notebook::read(NOTEBOOK).unwrap();
        let text = notebook.replaced(1, "t", Some(CellKind::Markdown)).unwrap();
        assert_eq!(
            value(&text)["cells"][1],
            json!({"cell_type": "markdown", "id": "bb", "metadata": {"odd": 1}, "source": ["t"]})
        );
        let text = notebook.replaced(0, "t", Some(CellKind::Code)).unwrap();
        assert_eq!(
            value(&text)["cells"][0],
            json!({"cell_type": "code", "id": "aa", "metadata": {}, "source": ["t"], "outputs": [], "execution_count": null})
        );
    }

    #[test]
    fn cells_come_and_go_and_the_rest_stays() {
        let notebook = Notebook::read(NOTEBOOK).unwrap();
        for (after, at) in [(None, 0), (Some(0), 1), (Some(1), 2)] {
            let text = notebook.inserted(after, "new\nlines", CellKind::Code);
            let now = Notebook::read(&text).unwrap();
            assert_eq!((now.cells.len(), now.source(at).as_str()), (3, "new\nlines"));
            assert_eq!(now.id(at).map(str::len), Some(8));
            assert!(
                text.contains("\n  {\n   \"cell_type\": \"code\",\n   \"execution_count\": null,\n"),
                "{text}"
            );
            assert_eq!(now.deleted(at).unwrap(), NOTEBOOK, "a new cell that is deleted leaves nothing");
        }
        let one = notebook.deleted(1).unwrap();
        let empty = Notebook::read(&one).unwrap().deleted(0).unwrap();
        assert_eq!(value(&empty)["cells"], json!([]));
        let again = Notebook::read(&empty).unwrap().inserted(None, "x", CellKind::Markdown);
        assert!(again.contains("\"cells\": [\n  {\n   \"cell_type\": \"markdown\","), "{again}");
    }

    #[test]
    fn a_text_of_one_line_stays_one() {
        let flat = r#"{"cells":[{"cell_type":"code","source":"a","outputs":[],"execution_count":null,"metadata":{}}],"nbformat":4,"nbformat_minor":4}"#;
        let notebook = Notebook::read(flat).unwrap();
        assert_eq!(notebook.replaced(0, "b\nc", None).unwrap(), flat.replace(r#""a""#, r#""b\nc""#));
        let text = notebook.inserted(Some(0), "x", CellKind::Markdown);
        assert!(!text.contains('\n') && text.len() > flat.len());
        assert_eq!(value(&text)["cells"][1], json!({"cell_type": "markdown", "metadata": {}, "source": "x"}));
    }

    #[test]
    fn cells_are_found_by_id_and_by_number() {
        let notebook = Notebook::read(NOTEBOOK).unwrap();
        for (cell, want) in [("bb", 1), ("1", 0), ("cell 2", 1), ("cell-2", 1)] {
            assert_eq!(notebook.find(cell), Ok(want), "{cell}");
        }
        for cell in ["0", "3", "zz", ""] {
            assert!(notebook.find(cell).unwrap_err().contains("2 cells"), "{cell}");
        }
        assert!(Notebook::read("{\"cells\": 1}").is_none() && Notebook::read("text").is_none());
    }
}
