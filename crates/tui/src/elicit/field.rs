//! The fields of a form: types, defaults, choices, editing, and the rules that a value must keep.
//!
//! A form is a flat JSON Schema of an object. Texts of the schema come from a server, so they are drawn without control
//! characters. A field of an unknown type is edited as text.

use super::pick::{Pick, Picked};
use crate::text;
use crate::theme::Theme;
use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::text::Line;
use serde_json::{Map, Value};

/// Maximum number of fields of a form, of choices of a field, and of characters of a typed value.
const MOST_FIELDS: usize = 50;
const MOST_CHOICES: usize = 200;
const MOST_CHARS: usize = 10_000;

/// A field with the value that it has now.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Field {
    name: String,
    pub(super) title: String,
    pub(super) about: String,
    pub(super) required: bool,
    value: Input,
    /// The reason why the value cannot be sent.
    pub(super) wrong: Option<String>,
    rules: Map<String, Value>,
}

#[derive(Clone, Debug, PartialEq)]
enum Input {
    Text(String),
    Number {
        text: String,
        whole: bool,
    },
    Flag(Option<bool>),
    /// One of these values, each with its label.
    One {
        choices: Vec<(Value, String)>,
        at: Option<usize>,
    },
    /// Some of these values. `at`: the choice under the cursor.
    Some {
        choices: Vec<(Value, String)>,
        chosen: Vec<bool>,
        at: usize,
    },
    /// Prepared answers to a question of the model.
    Pick(Pick),
}

/// Effect of a key on a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldKey {
    Used,
    /// The field is answered, and the next one gets the keyboard.
    Next,
    Unused,
}

/// Returns a field for each question of the model.
pub(super) fn questions(input: &Value) -> Vec<Field> {
    let words = |question: &Value, key: &str| question[key].as_str().unwrap_or_default().to_owned();
    let field = |question: &Value| Field {
        name: words(question, "question"),
        title: text::visible(&words(question, "header")).into_owned(),
        about: text::visible(&words(question, "question")).into_owned(),
        required: true,
        value: Input::Pick(Pick::of(question)),
        wrong: None,
        rules: Map::new(),
    };
    input["questions"].as_array().into_iter().flatten().take(MOST_FIELDS).map(field).collect()
}

/// Returns the fields of a form, in the order of the schema.
pub(super) fn fields(schema: &Value) -> Vec<Field> {
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = schema["properties"].as_object().into_iter().flatten();
    properties.take(MOST_FIELDS).map(|(name, rules)| field(name, rules, &required)).collect()
}

fn field(name: &str, rules: &Value, required: &[&str]) -> Field {
    let words = |key: &str| rules[key].as_str().map(|text| text::visible(text).into_owned());
    let default = &rules["default"];
    let value = match (rules["type"].as_str(), choices(rules), choices(&rules["items"])) {
        (Some("array"), _, Some(choices)) => {
            let has = |value: &Value| default.as_array().is_some_and(|list| list.contains(value));
            let chosen = choices.iter().map(|(value, _)| has(value)).collect();
            Input::Some { choices, chosen, at: 0 }
        }
        (_, Some(choices), _) => {
            let at = choices.iter().position(|(value, _)| value == default);
            Input::One { choices, at }
        }
        (Some("boolean"), ..) => Input::Flag(default.as_bool()),
        (Some(kind @ ("number" | "integer")), ..) => {
            let text = if default.is_number() { default.to_string() } else { String::new() };
            Input::Number { text, whole: kind == "integer" }
        }
        _ => Input::Text(default.as_str().unwrap_or_default().to_owned()),
    };
    Field {
        name: name.to_owned(),
        title: words("title").unwrap_or_else(|| text::visible(name).into_owned()),
        about: words("description").unwrap_or_default(),
        required: required.contains(&name),
        value,
        wrong: None,
        rules: rules.as_object().cloned().unwrap_or_default(),
    }
}

/// Returns the values to choose from, with their labels: `enum` with `enumNames`, or `oneOf` and `anyOf` of constants.
fn choices(rules: &Value) -> Option<Vec<(Value, String)>> {
    let label = |text: &str| text::visible(text).into_owned();
    let plain =
        |value: &Value| label(value.as_str().map_or_else(|| value.to_string(), str::to_owned).as_str());
    let listed = |list: &Vec<Value>| -> Vec<(Value, String)> {
        let names = rules["enumNames"].as_array();
        let name = |at: usize| names.and_then(|names| names.get(at)).and_then(Value::as_str);
        let values = list.iter().enumerate().take(MOST_CHOICES);
        values.map(|(at, value)| (value.clone(), name(at).map_or_else(|| plain(value), label))).collect()
    };
    let titled = |list: &Vec<Value>| -> Vec<(Value, String)> {
        let constants = list.iter().filter(|choice| choice.get("const").is_some()).take(MOST_CHOICES);
        constants
            .map(|choice| {
                let value = choice["const"].clone();
                let title = choice["title"].as_str().map_or_else(|| plain(&value), label);
                (value, title)
            })
            .collect()
    };
    let found = rules["enum"].as_array().map(listed);
    let found = found.or_else(|| rules["oneOf"].as_array().or_else(|| rules["anyOf"].as_array()).map(titled));
    found.filter(|choices| !choices.is_empty())
}

impl Field {
    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent) -> FieldKey {
        let plain = key.modifiers.difference(KeyModifiers::SHIFT).is_empty();
        let clear = key.modifiers == KeyModifiers::CONTROL && key.code == KeyCode::Char('u');
        let used = match &mut self.value {
            Input::Pick(pick) => {
                let picked = pick.key(key);
                if picked != Picked::Unused {
                    self.wrong = None;
                }
                return match picked {
                    Picked::Stays => FieldKey::Used,
                    Picked::Next => FieldKey::Next,
                    Picked::Unused => FieldKey::Unused,
                };
            }
            Input::Text(text) | Input::Number { text, .. } => match key.code {
                _ if clear => {
                    text.clear();
                    true
                }
                KeyCode::Char(c) if plain && text.chars().count() < MOST_CHARS => {
                    text.push(c);
                    true
                }
                KeyCode::Backspace => {
                    text::delete_back(text);
                    true
                }
                _ => false,
            },
            Input::Flag(flag) => match key.code {
                KeyCode::Char(' ') | KeyCode::Left | KeyCode::Right => {
                    *flag = Some(!flag.unwrap_or(false));
                    true
                }
                KeyCode::Backspace => {
                    *flag = None;
                    true
                }
                _ => false,
            },
            Input::One { choices, at } => match key.code {
                KeyCode::Char(' ') | KeyCode::Right => {
                    *at = Some(at.map_or(0, |at| (at + 1) % choices.len()));
                    true
                }
                KeyCode::Left => {
                    *at = Some(at.map_or(0, |at| (at + choices.len() - 1) % choices.len()));
                    true
                }
                KeyCode::Backspace => {
                    *at = None;
                    true
                }
                _ => false,
            },
            Input::Some { choices, chosen, at } => match key.code {
                KeyCode::Right => {
                    *at = (*at + 1) % choices.len();
                    true
                }
                KeyCode::Left => {
                    *at = (*at + choices.len() - 1) % choices.len();
                    true
                }
                KeyCode::Char(' ') => {
                    if let Some(is_chosen) = chosen.get_mut(*at) {
                        *is_chosen = !*is_chosen;
                    }
                    true
                }
                _ => false,
            },
        };
        if used {
            self.wrong = None;
        }
        if used { FieldKey::Used } else { FieldKey::Unused }
    }

    /// Records that the field gets the keyboard, from the field before it or from below.
    pub(super) fn enter(&mut self, from_below: bool) {
        if let Input::Pick(pick) = &mut self.value {
            pick.enter(from_below);
        }
    }

    /// Returns the rows of the prepared answers, and the range of those at the cursor. `None` for every other field.
    pub(super) fn answers(
        &self,
        here: bool,
        width: usize,
        theme: &Theme,
    ) -> Option<(Vec<Line<'static>>, std::ops::Range<usize>)> {
        let Input::Pick(pick) = &self.value else { return None };
        Some(pick.lines(here, width, theme))
    }

    /// Adds pasted text. Line breaks become spaces.
    pub(super) fn paste(&mut self, pasted: &str) {
        if let Input::Pick(pick) = &mut self.value {
            pick.write(pasted.trim());
            self.wrong = None;
        }
        if let Input::Text(text) | Input::Number { text, .. } = &mut self.value {
            let room = MOST_CHARS.saturating_sub(text.chars().count());
            text.extend(pasted.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(room));
            self.wrong = None;
        }
    }

    /// Returns the value as it is drawn. `here`: the field has the keyboard.
    pub(super) fn shown(&self, here: bool) -> String {
        match &self.value {
            Input::Text(text) | Input::Number { text, .. } => {
                format!("{}{}", text::visible(text), if here { "▏" } else { "" })
            }
            // The prepared answers have rows of their own: see `answers`.
            Input::Pick(_) => String::new(),
            Input::Flag(flag) => match flag {
                Some(true) => "‹ yes ›".to_owned(),
                Some(false) => "‹ no ›".to_owned(),
                None => "‹ not answered ›".to_owned(),
            },
            Input::One { choices, at } => {
                let label = at.and_then(|at| choices.get(at)).map_or("not chosen", |(_, label)| label);
                format!("‹ {label} › {} of {}", at.map_or(0, |at| at + 1), choices.len())
            }
            Input::Some { choices, chosen, at } => {
                let mark = |(n, (_, label)): (usize, &(Value, String))| {
                    let mark = if chosen.get(n) == Some(&true) { "[x]" } else { "[ ]" };
                    let cursor = if here && n == *at { "❯" } else { "" };
                    format!("{cursor}{mark} {label}")
                };
                choices.iter().enumerate().map(mark).collect::<Vec<_>>().join("  ")
            }
        }
    }

    /// Returns the keys that change the field.
    pub(super) fn keys(&self) -> &'static str {
        match &self.value {
            Input::Text(_) | Input::Number { .. } => "type the value · Ctrl-U clears it",
            Input::Flag(_) | Input::One { .. } => "← → choose · Backspace clears it",
            Input::Some { .. } => "← → move · Space chooses",
            Input::Pick(pick) => pick.keys(),
        }
    }

    /// Checks the value. Returns it with its name, `None` if an optional field is empty.
    ///
    /// # Errors
    ///
    /// Returns the reason for people if the value breaks a rule of the form.
    pub(super) fn checked(&self) -> Result<Option<(String, Value)>, String> {
        let value = match &self.value {
            Input::Text(text) if text.is_empty() && !self.required => None,
            Input::Text(text) => Some(Value::from(self.text_kept(text)?)),
            Input::Number { text, .. } if text.trim().is_empty() => None,
            Input::Number { text, whole } => Some(self.number_kept(text.trim(), *whole)?),
            Input::Flag(flag) => flag.map(Value::from),
            Input::Pick(pick) => Some(pick.answer()?),
            Input::One { choices, at } => at.and_then(|at| choices.get(at)).map(|(value, _)| value.clone()),
            Input::Some { choices, chosen, .. } => {
                let values = choices.iter().zip(chosen).filter(|(_, chosen)| **chosen);
                let values: Vec<Value> = values.map(|((value, _), _)| value.clone()).collect();
                self.within(values.len() as f64, ("minItems", "maxItems"), "choices")?;
                (!values.is_empty() || self.required).then_some(Value::Array(values))
            }
        };
        match value {
            None if self.required => Err("this is required".to_owned()),
            value => Ok(value.map(|value| (self.name.clone(), value))),
        }
    }

    fn text_kept(&self, text: &str) -> Result<String, String> {
        if text.is_empty() {
            return Err("this is required".to_owned());
        }
        self.within(text.chars().count() as f64, ("minLength", "maxLength"), "characters")?;
        let fits = match self.rules.get("format").and_then(Value::as_str) {
            Some("email") => {
                text.split_once('@').is_some_and(|(who, host)| !who.is_empty() && host.contains('.'))
            }
            Some("uri") => text.split_once(':').is_some_and(|(scheme, rest)| {
                !rest.is_empty() && !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric())
            }),
            Some("date") => is_date(text),
            Some("date-time") => text.split_once(['T', 't']).is_some_and(|(date, time)| {
                is_date(date) && time.len() >= 6 && time.as_bytes().get(2) == Some(&b':')
            }),
            _ => true,
        };
        if let Some(format) = self.rules.get("format").and_then(Value::as_str).filter(|_| !fits) {
            return Err(format!("this is no {}", text::visible(format)));
        }
        match self.rules.get("pattern").and_then(Value::as_str) {
            Some(pattern) if !has_pattern(text, pattern) => {
                Err(format!("this does not have the form {}", text::visible(pattern)))
            }
            _ => Ok(text.to_owned()),
        }
    }

    fn number_kept(&self, text: &str, whole: bool) -> Result<Value, String> {
        let number: serde_json::Number = match (whole, text.parse::<i64>(), text.parse::<f64>()) {
            (_, Ok(number), _) => number.into(),
            (true, ..) => return Err("this is no whole number".to_owned()),
            (false, _, Ok(number)) => {
                serde_json::Number::from_f64(number).ok_or_else(|| "this is no number".to_owned())?
            }
            (false, ..) => return Err("this is no number".to_owned()),
        };
        self.within(number.as_f64().unwrap_or_default(), ("minimum", "maximum"), "")?;
        Ok(Value::Number(number))
    }

    /// Checks a size by two rules of the schema. `unit`: the unit of the size in the message; empty for a number itself.
    fn within(&self, size: f64, (least, most): (&str, &str), unit: &str) -> Result<(), String> {
        let rule = |name: &str| self.rules.get(name).and_then(Value::as_f64);
        let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
        match (rule(least), rule(most)) {
            (Some(least), _) if size < least => Err(format!("at least {least}{unit}")),
            (_, Some(most)) if size > most => Err(format!("at most {most}{unit}")),
            _ => Ok(()),
        }
    }
}

/// True if a text matches a pattern of the server. A pattern that cannot be read here is left to the server.
fn has_pattern(text: &str, pattern: &str) -> bool {
    const MOST: usize = 1 << 20;
    let built = regex::RegexBuilder::new(pattern).size_limit(MOST).build();
    built.map_or(true, |pattern| pattern.is_match(text))
}

/// True for `2026-11-27`.
fn is_date(text: &str) -> bool {
    let digits = |part: Option<&str>, length: usize| {
        part.is_some_and(|part| part.len() == length && part.bytes().all(|b| b.is_ascii_digit()))
    };
    let mut parts = text.split('-');
    digits(parts.next(), 4) && digits(parts.next(), 2) && digits(parts.next(), 2) && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn one(rules: Value, required: bool) -> Field {
        let required = if required { json!(["f"]) } else { json!([]) };
        fields(&json!({ "properties": { "f": rules }, "required": required })).remove(0)
    }

    fn press(field: &mut Field, code: KeyCode) -> bool {
        field.key(KeyEvent::new(code, KeyModifiers::NONE)) == FieldKey::Used
    }

    #[test]
    fn defaults_are_the_first_values() {
        for (rules, want) in [
            (json!({ "type": "string", "default": "x" }), Some(json!("x"))),
            (json!({ "type": "string" }), None),
            (json!({ "type": "integer", "default": 3 }), Some(json!(3))),
            (json!({ "type": "number", "default": 2.5 }), Some(json!(2.5))),
            (json!({ "type": "boolean", "default": false }), Some(json!(false))),
            (json!({ "type": "boolean" }), None),
            (json!({ "type": "string", "enum": ["a", "b"], "default": "b" }), Some(json!("b"))),
            (json!({ "oneOf": [{ "const": 1, "title": "One" }], "default": 1 }), Some(json!(1))),
            (
                json!({ "type": "array", "items": { "enum": ["a", "b"] }, "default": ["b"] }),
                Some(json!(["b"])),
            ),
            (json!({ "type": "array", "items": { "anyOf": [{ "const": "a" }] } }), None),
        ] {
            let value = one(rules.clone(), false).checked().unwrap();
            assert_eq!(value.map(|(_, value)| value), want, "{rules}");
        }
    }

    #[test]
    fn values_that_break_a_rule_are_refused_with_the_rule() {
        for (rules, typed, wrong) in [
            (json!({ "type": "string" }), "", "this is required"),
            (json!({ "type": "string", "minLength": 3 }), "ab", "at least 3 characters"),
            (json!({ "type": "string", "maxLength": 1 }), "ab", "at most 1 characters"),
            (json!({ "type": "string", "format": "email" }), "nobody", "this is no email"),
            (json!({ "type": "string", "format": "date" }), "27.11.2026", "this is no date"),
            (json!({ "type": "string", "format": "date-time" }), "2026-11-27", "this is no date-time"),
            (json!({ "type": "string", "format": "uri" }), "plain", "this is no uri"),
            (
                json!({ "type": "string", "pattern": "^[A-Z]{2}-\\d+$" }),
                "x",
                "this does not have the form ^[A-Z]{2}-\\d+$",
            ),
            (json!({ "type": "integer" }), "1.5", "this is no whole number"),
            (json!({ "type": "number" }), "many", "this is no number"),
            (json!({ "type": "number", "minimum": 2 }), "1", "at least 2"),
            (json!({ "type": "integer", "maximum": 2 }), "3", "at most 2"),
            (json!({ "type": "boolean" }), "", "this is required"),
            (json!({ "type": "string", "enum": ["a"] }), "", "this is required"),
            (json!({ "type": "array", "items": { "enum": ["a"] }, "minItems": 1 }), "", "at least 1 choices"),
        ] {
            let mut field = one(rules.clone(), true);
            field.paste(typed);
            assert_eq!(field.checked(), Err(wrong.to_owned()), "{rules}");
        }
        for (rules, typed) in [
            (json!({ "type": "string", "format": "email" }), "a@b.org"),
            (json!({ "type": "string", "format": "uri" }), "https://example.org"),
            (json!({ "type": "string", "format": "date" }), "2026-11-27"),
            (json!({ "type": "string", "pattern": "^[A-Z]{2}-\\d+$" }), "AB-12"),
            (json!({ "type": "string", "pattern": "(?=no)" }), "a pattern of the server's own language"),
            (json!({ "type": "string", "format": "date-time" }), "2026-11-27T10:00:00Z"),
            (json!({ "type": "number", "minimum": -1, "maximum": 1 }), "0.25"),
        ] {
            let mut field = one(rules.clone(), true);
            field.paste(typed);
            assert!(field.checked().is_ok(), "{rules}");
        }
    }

    #[test]
    fn keys_change_each_kind() {
        let value = |field: &Field| field.checked().ok().flatten().map(|(_, value)| value);
        let mut text = one(json!({ "type": "string", "default": "ab" }), false);
        assert!(press(&mut text, KeyCode::Char('c')) && press(&mut text, KeyCode::Backspace));
        assert!(!press(&mut text, KeyCode::Enter) && !press(&mut text, KeyCode::Down));
        assert_eq!(value(&text), Some(json!("ab")));
        assert_eq!(text.key(KeyEvent::new(KeyCode::Char('u'), KeyModifiers::CONTROL)), FieldKey::Used);
        assert_eq!(value(&text), None);
        let mut flag = one(json!({ "type": "boolean" }), false);
        press(&mut flag, KeyCode::Char(' '));
        assert_eq!((value(&flag), flag.shown(true).as_str()), (Some(json!(true)), "‹ yes ›"));
        let mut choice = one(json!({ "enum": ["a", "b"], "enumNames": ["First", "Second"] }), false);
        press(&mut choice, KeyCode::Right);
        press(&mut choice, KeyCode::Left);
        assert_eq!((value(&choice), choice.shown(false)), (Some(json!("b")), "‹ Second › 2 of 2".to_owned()));
        let mut some = one(json!({ "type": "array", "items": { "enum": ["a", "b"] } }), false);
        press(&mut some, KeyCode::Right);
        press(&mut some, KeyCode::Char(' '));
        assert_eq!((value(&some), some.shown(true)), (Some(json!(["b"])), "[ ] a  ❯[x] b".to_owned()));
    }
}
