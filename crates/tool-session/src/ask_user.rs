//! The `ask_user` tool: the model asks the user up to four questions with prepared answers.
//!
//! Owns the form of the questions and of the answers. The questions reach the user as the question for permission of the call
//! ([`Tool::asks_person`]); the person's decision adds the answers to the call's input. Shows nothing and waits for nobody.

use becket_tool::input::Parser;
use becket_tool::{PersonQuestion, Tool, ToolEnv, text};
use becket_types::{Access, ToolOutput, ToolSpec, is_blank, quoted};
use futures::future::BoxFuture;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// Maximum number of questions of a call, and of prepared answers of a question.
const MOST_QUESTIONS: usize = 4;
const MOST_OPTIONS: usize = 4;
/// Longest answer in bytes.
const MOST_ANSWER: usize = 10_000;

static QUESTION: PersonQuestion = PersonQuestion {
    reason: "the model asks you",
    refused: "The user did not answer. Decide yourself, or go on without it and say what you assumed",
    answers: &["answers", "annotations"],
    only_in: None,
};

/// Other names of the fields, as models write them.
const ALIASES: &[(&str, &str)] = &[
    ("multi_select", "multiSelect"),
    ("multiple", "multiSelect"),
    ("title", "header"),
    ("text", "question"),
];
/// Fields that only the person's decision sets, and fields of other agents that have no effect here.
const IGNORED: &[&str] = &["answers", "annotations", "metadata", "preview"];

#[derive(Debug, Deserialize)]
struct Input {
    questions: Vec<Question>,
}

#[derive(Debug, Deserialize)]
struct Question {
    question: String,
    options: Vec<Choice>,
}

#[derive(Debug, Deserialize)]
struct Choice {
    label: String,
}

/// Asks the user. Offered only where somebody can answer.
pub struct AskUser {
    spec: ToolSpec,
}

impl AskUser {
    /// Makes the tool with its specification.
    pub fn new() -> Self {
        let option = json!({
            "type": "object",
            "properties": {"label": {"type": "string"}, "description": {"type": "string"}},
            "required": ["label"]
        });
        let question = json!({
            "type": "object",
            "properties": {
                "question": {"type": "string"},
                "header": {"type": "string", "description": "One or two words"},
                "options": {"type": "array", "items": option},
                "multiSelect": {"type": "boolean"}
            },
            "required": ["question", "options"]
        });
        let spec = ToolSpec {
            name: "ask_user".to_owned(),
            description: "Asks the user 1 to 4 questions with 2 to 4 options each; they can always write an answer of their \
                own. Only for decisions that are the user's and that you cannot find out."
                .to_owned(),
            input_schema: json!({
                "type": "object",
                "properties": {"questions": {"type": "array", "items": question}},
                "required": ["questions"]
            })
            .into(),
        };
        Self { spec }
    }

    fn questions(&self, input: &Value) -> Result<Vec<Question>, String> {
        let parser = Parser::new(&self.spec).aliases(ALIASES).ignore(IGNORED);
        let Input { questions } = parser.parse(input)?;
        if questions.is_empty() || questions.len() > MOST_QUESTIONS {
            return Err(format!("{} questions were given; ask 1 to {MOST_QUESTIONS}.", questions.len()));
        }
        let mut seen = BTreeSet::new();
        for (index, question) in questions.iter().enumerate() {
            let number = index + 1;
            if is_blank(&question.question) {
                return Err(format!("Question {number} is empty."));
            }
            // Answers are matched by the text of their question, so no two questions may have the same text.
            if !seen.insert(question.question.as_str()) {
                return Err(format!("Question {number} was given twice."));
            }
            let count = question.options.len();
            if !(2..=MOST_OPTIONS).contains(&count) {
                return Err(format!("Question {number} has {count} options; give 2 to {MOST_OPTIONS}."));
            }
            if question.options.iter().any(|option| is_blank(&option.label)) {
                return Err(format!("Question {number} has an option without a label."));
            }
        }
        Ok(questions)
    }
}

impl Default for AskUser {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns an answer as one text. It may be a text, or a list with the labels of several options.
fn answer_text(answer: &Value) -> Option<String> {
    let text = match answer {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => return None,
    };
    let text = becket_types::cut_end(text.trim(), MOST_ANSWER);
    (!is_blank(text)).then(|| text::clean(text).into_owned())
}

/// Returns the output of a call: the questions with the answers in `input`.
fn answered(questions: &[Question], input: &Value) -> ToolOutput {
    let empty = Map::new();
    let given = input.get("answers").and_then(Value::as_object).unwrap_or(&empty);
    let mut answers = Map::new();
    let mut parts = Vec::new();
    for question in questions {
        if let Some(answer) = given.get(&question.question).and_then(answer_text) {
            parts.push(format!("{}={}", quoted(&question.question), quoted(&answer)));
            answers.insert(question.question.clone(), Value::String(answer));
        }
    }
    let details = json!({"questions": input.get("questions"), "answers": answers});
    let open = questions.len() - parts.len();
    let content = match (parts.is_empty(), open) {
        (true, _) => "The user gave no answer. Decide yourself, and say what you assumed.".to_owned(),
        (false, 0) => format!("User has answered your questions: {}.", parts.join(", ")),
        (false, open) => {
            format!(
                "User has answered your questions: {}. {open} left open: decide yourself.",
                parts.join(", ")
            )
        }
    };
    ToolOutput { details, ..ToolOutput::text(content) }
}

impl Tool for AskUser {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn access(&self, input: &Value, _: &ToolEnv) -> Result<Access, String> {
        self.questions(input).map(|_| Access::session())
    }

    fn run<'a>(&'a self, input: Value, _: &'a ToolEnv) -> BoxFuture<'a, ToolOutput> {
        let output = match self.questions(&input) {
            Ok(questions) => answered(&questions, &input),
            Err(message) => ToolOutput::error(message),
        };
        Box::pin(std::future::ready(output))
    }

    fn asks_person(&self) -> Option<&'static PersonQuestion> {
        Some(&QUESTION)
    }

    fn protected(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use becket_tool::testing::{self, run};
    use std::path::Path;

    fn question(text: &str, labels: &[&str]) -> Value {
        let options: Vec<Value> =
            labels.iter().map(|label| json!({"label": label, "description": "d"})).collect();
        json!({"question": text, "header": "h", "options": options, "multiSelect": false})
    }

    #[tokio::test]
    async fn answers_are_given_back_by_their_questions() {
        let (env, _) = testing::env(Path::new("/"));
        let tool = AskUser::new();
        let questions = json!([question("Which?", &["a", "b"]), question("Else?", &["c", "d"])]);
        for (answers, want) in [
            (
                json!({"Which?": "a", "Else?": ["c", "d"]}),
                "User has answered your questions: \"Which?\"=\"a\", \"Else?\"=\"c, d\".",
            ),
            (
                json!({"Else?": "my \"own\"", "Other": "x"}),
                "User has answered your questions: \"Else?\"=\"my \\\"own\\\"\". 1 left open: decide yourself.",
            ),
            (json!({"Which?": " "}), "The user gave no answer. Decide yourself, and say what you assumed."),
            (json!(7), "The user gave no answer. Decide yourself, and say what you assumed."),
        ] {
            let output = run(&tool, &env, json!({"questions": questions, "answers": answers})).await;
            assert_eq!((output.content.as_str(), output.is_error), (want, false));
            assert_eq!(output.details["questions"], questions);
        }
    }

    #[tokio::test]
    async fn questions_that_break_a_rule_are_refused() {
        let (env, _) = testing::env(Path::new("/"));
        let tool = AskUser::new();
        let fine = || question("Which?", &["a", "b"]);
        for (questions, want) in [
            (json!([]), "0 questions were given; ask 1 to 4."),
            (json!([fine(), fine()]), "Question 2 was given twice."),
            (json!([question(" ", &["a", "b"])]), "Question 1 is empty."),
            (json!([question("?", &["a"])]), "Question 1 has 1 options; give 2 to 4."),
            (json!([question("?", &["a", " "])]), "Question 1 has an option without a label."),
        ] {
            let output = run(&tool, &env, json!({"questions": questions})).await;
            assert_eq!((output.content.as_str(), output.is_error), (want, true));
            assert!(tool.access(&json!({"questions": questions}), &env).is_err());
        }
    }
}
