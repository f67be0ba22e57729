//! Questions of the model and its plans in plain lines: the lines that ask, and the answers.
//!
//! Pure. The speaker decides when a line counts as an answer.

use becket_types::{PermissionRequest, sdk_names};
use serde_json::{Map, Value, json};

/// Kind of a request that is more than a question for permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Questions,
    Plan,
}

impl Kind {
    pub(super) fn of(request: &PermissionRequest) -> Option<Self> {
        match &*sdk_names::own_name(&request.tool) {
            _ if request.secrets.is_some() => None,
            "ask_user" => Some(Self::Questions),
            "exit_plan" => Some(Self::Plan),
            _ => None,
        }
    }
}

fn questions(input: &Value) -> &[Value] {
    input["questions"].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the lines that ask. `answered`: the number of questions that have their answer.
pub(super) fn lines(kind: Kind, input: &Value, answered: usize) -> Vec<String> {
    let text = |value: &Value, key: &str| value[key].as_str().unwrap_or_default().to_owned();
    if kind == Kind::Plan {
        let mut out = vec!["Question: the model has a plan and wants to carry it out.".to_owned()];
        out.extend(text(input, "plan").lines().map(str::to_owned));
        out.push(
            "Answer /y to start, /s to start and let files be edited without asking, /n to continue planning, or /n and why."
                .to_owned(),
        );
        return out;
    }
    let all = questions(input);
    let Some(question) = all.get(answered) else { return Vec::new() };
    let mut out = vec![format!(
        "Question {} of {} of the model: {}",
        answered + 1,
        all.len(),
        text(question, "question")
    )];
    for (at, option) in question["options"].as_array().into_iter().flatten().enumerate() {
        let about = Some(text(option, "description")).filter(|about| !about.is_empty());
        let about = about.map(|about| format!(". {about}")).unwrap_or_default();
        out.push(format!("{}: {}{about}", at + 1, text(option, "label")));
    }
    let numbers = if question["multiSelect"] == true { "numbers, such as /a 1 2" } else { "a number" };
    out.push(format!("Answer /a and {numbers}, or /a and an answer of your own. /n answers nothing."));
    out
}

/// Returns the answer that the words after `/a` mean: labels for numbers, or else the words themselves.
pub(super) fn answer(input: &Value, answered: usize, words: &str) -> Option<String> {
    let question = questions(input).get(answered)?;
    let words = words.trim();
    let label = |word: &str| {
        let at = word.parse::<usize>().ok()?.checked_sub(1)?;
        question["options"].get(at)?["label"].as_str().map(str::to_owned)
    };
    let parts: Vec<&str> = words.split([' ', ',']).filter(|part| !part.is_empty()).collect();
    let labels: Option<Vec<String>> = parts.iter().map(|part| label(part)).collect();
    let several = question["multiSelect"] == true;
    match labels {
        _ if parts.is_empty() => None,
        Some(labels) if several || labels.len() == 1 => Some(labels.join(", ")),
        _ => Some(words.to_owned()),
    }
}

/// Returns the input with the answers, if all questions have one.
pub(super) fn complete(input: &Value, answers: &[String]) -> Option<Value> {
    let all = questions(input);
    if answers.len() < all.len() {
        return None;
    }
    let named = all.iter().zip(answers).filter_map(|(question, answer)| {
        Some((question["question"].as_str()?.to_owned(), Value::from(answer.as_str())))
    });
    let mut input = input.clone();
    input["answers"] = json!(named.collect::<Map<_, _>>());
    Some(input)
}
