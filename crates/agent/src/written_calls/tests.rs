//! Calls in text as models write them, and ordinary answers that only show such calls.

use super::*;
use serde_json::json;

/// Returns the names joined by spaces, with `!` if the text ends with a call.
fn found(text: &str) -> Option<String> {
    let calls = written_calls(text, &["read", "bash"])?;
    Some(format!("{}{}", calls.names.join(" "), if calls.is_the_end { "!" } else { "" }))
}

/// Texts, and the calls in them.
const CALLS: &[(&str, &str)] = &[
    ("```json\n{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}\n```", "read!"),
    ("I look.\n\n```\n{\"name\":\"bash\",\"parameters\":{\"command\":\"ls\"}}\n```\nDone.", "bash"),
    ("{\"name\": \"Read\", \"arguments\": {\"path\": \"a\"}}", "Read!"),
    ("<tools>{\"name\": \"read\", \"arguments\": {}}</tools>", "read!"),
    ("```xml\n<tool_call>{\"name\": \"read\", \"arguments\": {}}</tool_call>\n```", "read!"),
    ("```json\n[{\"tool\": \"bash\", \"input\": {\"command\": \"ls\"}}]\n```", "bash!"),
    ("```json\n{\"type\":\"function\",\"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}\n```", "read!"),
    ("```json\n{\"a\": 1}\n```\n```json\n{\"name\": \"read\", \"arguments\": {}}\n```", "read!"),
    // Hermes, and two calls in one text.
    (
        "<tool_call>\n{\"name\": \"read\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"bash\", \"arguments\": {}}\n</tool_call>",
        "read bash!",
    ),
    ("{\"name\": \"read\", \"arguments\": {}}\n{\"name\": \"bash\", \"arguments\": {}}", "read bash!"),
    // Qwen3-Coder.
    (
        "I look.\n<tool_call>\n<function=read>\n<parameter=path>\na.rs\n</parameter>\n</function>\n</tool_call>",
        "read!",
    ),
    // Mistral, old and new.
    ("[TOOL_CALLS][{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}]", "bash!"),
    ("[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"}", "bash!"),
    // Llama 3.
    ("<|python_tag|>{\"name\": \"read\", \"parameters\": {\"path\": \"a\"}}", "read!"),
    ("<function=bash>{\"command\": \"ls\"}</function>", "bash!"),
    // Granite, and Gemma.
    ("<|tool_call|>[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]", "read!"),
    ("I look.\n```tool_code\nread(path=\"a\")\n```", "read!"),
    // DeepSeek.
    (
        "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
        "read!",
    ),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{\"path\": \"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "read!",
    ),
    (
        "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{\"path\": \"a\"}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        "read!",
    ),
    // Claude's XML.
    (
        "<function_calls>\n<invoke name=\"bash\">\n<parameter name=\"command\">ls</parameter>\n</invoke>\n</function_calls>",
        "bash!",
    ),
    // Kimi, GLM, gpt-oss.
    (
        "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{\"path\": \"a\"}<|tool_call_end|><|tool_calls_section_end|>",
        "read!",
    ),
    ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "read!"),
    (
        "<|channel|>commentary to=functions.bash <|constrain|>json<|message|>{\"command\":\"ls\"}<|call|>",
        "bash!",
    ),
    // Claude's XML with a prefix, and its old form.
    (
        "<x:function_calls>\n<x:invoke name=\"bash\">\n<x:parameter name=\"command\">ls</x:parameter>\n</x:invoke>\n</x:function_calls>",
        "bash!",
    ),
    (
        "<function_calls>\n<invoke>\n<tool_name>bash</tool_name>\n<parameters>\n<command>ls</command>\n</parameters>\n</invoke>\n</function_calls>",
        "bash!",
    ),
    // Llama: two calls in one text, and Python.
    (
        "{\"name\": \"read\", \"parameters\": {\"path\": \"a\"}}; {\"name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}",
        "read bash!",
    ),
    (
        "<|python_tag|>{\"name\": \"read\", \"parameters\": {}}; {\"name\": \"hammer\", \"parameters\": {}}",
        "read hammer!",
    ),
    ("[read(path=\"k\"), bash(command=\"ls -l | grep ')]'\")]", "read bash!"),
    ("I look.\n\n[bash(command='ls', background=True, limits=[1, {'a': None}])]", "bash!"),
    ("<|python_tag|>bash.call(command=\"ls\")<|eom_id|>", "bash!"),
    ("<|python_tag|>hammer.call(x=1)", "hammer!"),
    ("<tool_code>print(default_api.read(path=\"a\"))</tool_code>", "read!"),
    // LFM, Cohere, Nemotron, InternLM, Phi, FunctionGemma.
    ("<|tool_call_start|>[read(path=\"a\")]<|tool_call_end|>", "read!"),
    (
        "<|START_ACTION|>[{\"tool_call_id\": \"0\", \"tool_name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}]<|END_ACTION|>",
        "bash!",
    ),
    ("<TOOLCALL>[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]</TOOLCALL>", "read!"),
    ("<|action_start|><|plugin|>{\"name\": \"read\", \"parameters\": {}}<|action_end|>", "read!"),
    ("functools[{\"name\": \"read\", \"arguments\": {\"path\": \"a\"}}]", "read!"),
    ("<start_function_call>call:read{path:<escape>a<escape>}<end_function_call>", "read!"),
    // ReAct, with and without an output that the model imagines.
    ("Thought: I list them.\nAction: bash\nAction Input: {\"command\": \"ls\"}", "bash!"),
    ("Action: `bash`\nAction Input: ls -l\nObservation: a.rs\nb.rs", "bash!"),
    ("```json\n{\"action\": \"bash\", \"action_input\": {\"command\": \"ls\"}}\n```", "bash!"),
    // XML elements that are named like the tool.
    ("I look.\n<bash><command>ls</command></bash>", "bash!"),
    ("<read>\n<path>a.rs</path>\n<limit>3</limit>\n</read>", "read!"),
    ("<bash>{\"command\": \"ls\"}</bash>", "bash!"),
    // One sentence after the call still counts as the end of the text.
    (
        "<tool_call>{\"name\": \"bash\", \"arguments\": {}}</tool_call>\nI wait for the output of the command.",
        "bash!",
    ),
    ("[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"} I will look at the result next.", "bash!"),
    // With more than one sentence after the call, the text does not end with it.
    (
        "<tool_call>{\"name\": \"bash\", \"arguments\": {}}</tool_call>\nIt lists files. Then it ends. You see them.",
        "bash",
    ),
    // A tool that does not exist.
    ("{\"name\": \"hammer\", \"arguments\": {\"x\": 1}}", "hammer!"),
    (
        "[{\"type\": \"function\", \"function\": {\"name\": \"hammer\", \"arguments\": \"{\\\"x\\\": 1}\"}}]",
        "hammer!",
    ),
    ("<tool_call>{\"name\": \"hammer\", \"arguments\": {}}</tool_call>", "hammer!"),
    ("<function=hammer><parameter=x>1</parameter></function>", "hammer!"),
];

#[test]
fn calls_in_text_as_models_write_them() {
    for (text, want) in CALLS {
        assert_eq!(found(text).as_deref(), Some(*want), "{text}");
    }
}

#[test]
fn the_inputs_of_calls_in_text() {
    let path = json!({"path": "a.rs"});
    for (text, want) in [
        (
            "<tool_call>{\"name\": \"read\", \"arguments\": {\"path\": \"a.rs\"}}</tool_call>",
            Some(path.clone()),
        ),
        ("{\"name\": \"read\", \"arguments\": \"{\\\"path\\\": \\\"a.rs\\\"}\"}", Some(path.clone())),
        (
            "<tool_call>\n<function=read>\n<parameter=path>\na.rs\n</parameter>\n</function>\n</tool_call>",
            Some(path.clone()),
        ),
        (
            "<function_calls>\n<invoke name=\"read\">\n<parameter name=\"path\">a.rs</parameter>\n</invoke>",
            Some(path.clone()),
        ),
        (
            "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a.rs</arg_value>\n</tool_call>",
            Some(path.clone()),
        ),
        ("[TOOL_CALLS]read[ARGS]{\"path\": \"a.rs\"}", Some(path.clone())),
        ("<function=read>{\"path\": \"a.rs\"}</function>", Some(path.clone())),
        (
            "<|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{\"path\": \"a.rs\"}<|tool_call_end|>",
            Some(path.clone()),
        ),
        (
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">\n<｜DSML｜parameter name=\"path\" string=\"true\">a.rs</｜DSML｜parameter>\n</｜DSML｜invoke>",
            Some(path.clone()),
        ),
        // Python, and elements.
        ("```tool_code\nread(path=\"a.rs\")\n```", Some(path.clone())),
        ("[read(path='a.rs')]", Some(path.clone())),
        ("<read><path>a.rs</path></read>", Some(path.clone())),
        (
            "<invoke><tool_name>read</tool_name><parameters><path>a.rs</path></parameters></invoke>",
            Some(path.clone()),
        ),
        ("Action: read\nAction Input: {\"path\": \"a.rs\"}", Some(path.clone())),
        ("<x:invoke name=\"read\"><x:parameter name=\"path\">a.rs</x:parameter></x:invoke>", Some(path)),
        // An expression is not evaluated, and an input that is not an object does not count.
        ("<|python_tag|>read(path=a + b)", None),
        ("{\"name\": \"read\", \"arguments\": \"a.rs\"}", None),
    ] {
        let found = written_calls(text, &["read"]).unwrap();
        assert_eq!(found.inputs, [want], "{text}");
    }
    let schema = json!({"properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}});
    let input = json!({"path": "1", "limit": "20", "other": "3"});
    assert_eq!(typed(input, &schema), json!({"path": "1", "limit": 20, "other": "3"}));
}

#[test]
fn arguments_beside_the_name_count_if_all_required_ones_are_there() {
    let schema = json!({"properties": {"prompt": {}, "agent": {}}, "required": ["prompt"]});
    let none = json!({"properties": {"path": {}}});
    let found = |text: &str| flat_call(text, [("task", &schema), ("list", &none)].into_iter());
    let input = json!({"prompt": "p", "agent": "general"});
    let flat = "{\"name\": \"task\", \"prompt\": \"p\", \"agent\": \"general\"}";
    for text in [flat.to_owned(), format!("```json\n{flat}\n```"), format!("I look.\n```\n{flat}\n```")] {
        let call = found(&text).unwrap();
        assert_eq!((call.names, call.inputs), (vec!["task".to_owned()], vec![Some(input.clone())]), "{text}");
        assert!(call.is_the_end, "{text}");
    }
    assert!(!found(&format!("```json\n{flat}\n```\nThat is how it looks.")).unwrap().is_the_end);
    for text in [
        "{\"name\": \"task\", \"version\": \"1.0\"}",
        "{\"name\": \"list\", \"path\": \"a\"}",
        "{\"name\": \"other\", \"prompt\": \"p\"}",
        "[{\"name\": \"task\", \"prompt\": \"p\"}]",
        "no call",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

#[test]
fn texts_without_calls() {
    for text in [
        // Not calls: an unknown tool in a code block or bare JSON, a call without input, a cut call,
        // plain text.
        "```json\n{\"name\": \"hammer\", \"arguments\": {}}\n```",
        "{\"name\": \"hammer\", \"parameters\": {}}",
        // A definition of a tool, data, and JSON with more beside it.
        "{\"name\": \"hammer\", \"parameters\": {\"type\": \"object\", \"properties\": {\"x\": {}}}}",
        "{\"name\": \"Ada Lovelace\", \"arguments\": {\"for\": \"engines\"}}",
        "{\"name\": \"hammer\", \"version\": \"1.0\", \"arguments\": {\"x\": 1}}",
        "{\"name\": \"hammer\", \"arguments\": {\"x\": 1}}\nThat is the file's content.",
        "```json\n{\"name\": \"read\", \"version\": \"1.0\"}\n```",
        "The field \"name\" is `read`, \"arguments\" an object.",
        "```json\n{\"name\": \"read\", \"argum",
        "Models write `<tool_call>` around their calls.",
        "```xml\n<invoke name=\"hammer\"></invoke>\n```\nis how Claude's XML looks.",
        "",
        "``````",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

/// Forms of a call of `bash`, as models write them and as pages quote them.
const FORMS: [&str; 13] = [
    "{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}",
    "<tool_call>{\"name\": \"bash\", \"arguments\": {\"command\": \"ls\"}}</tool_call>",
    "<tool_call><function=bash><parameter=command>ls</parameter></function></tool_call>",
    "[TOOL_CALLS]bash[ARGS]{\"command\": \"ls\"}",
    "<|python_tag|>bash.call(command=\"ls\")",
    "[bash(command=\"ls\")]",
    "<x:invoke name=\"bash\"><x:parameter name=\"command\">ls</x:parameter></x:invoke>",
    "<invoke><tool_name>bash</tool_name><parameters><command>ls</command></parameters></invoke>",
    "<|START_ACTION|>[{\"tool_name\": \"bash\", \"parameters\": {\"command\": \"ls\"}}]<|END_ACTION|>",
    "Action: bash\nAction Input: {\"command\": \"ls\"}",
    "<bash><command>ls</command></bash>",
    "<tool_call>bash\n<arg_key>command</arg_key>\n<arg_value>ls</arg_value>\n</tool_call>",
    "<|channel|>commentary to=functions.bash <|message|>{\"command\": \"ls\"}<|call|>",
];

/// Each form ends a turn after usual words, and does not count in an ordinary answer that shows it.
#[test]
fn forms_count_as_calls_and_not_as_examples() {
    for form in FORMS {
        let bare = form.starts_with('{');
        for text in [form.to_owned(), format!("I list the files.\n\n{form}\n"), format!("{form}\n\n")] {
            if bare && text.starts_with('I') {
                // JSON after other text, without a code block or a marker, may be any data.
                continue;
            }
            assert_eq!(found(&text).as_deref(), Some("bash!"), "{text}");
        }
        for text in [
            format!("A call looks like this:\n\n```\n{form}\n```"),
            format!(
                "Models of this family use the following format:\n```xml\n{form}\n```\n\nThe server reads it."
            ),
            format!("# Example\n\n```text\n{form}\n```\n"),
            format!(
                "Your server sent the payload below.\n\n~~~\nno\n~~~\n\nFor instance:\n```json\n{form}\n```"
            ),
        ] {
            assert_eq!(found(&text), None, "{text}");
        }
        if !form.contains('\n') && !bare {
            for text in [
                format!("The template writes `{form}` for each call."),
                format!("Use `{form}`"),
                format!("1. `{form}` is what the parser of vLLM expects\n2. nothing else"),
            ] {
                assert_eq!(found(&text), None, "{text}");
            }
        }
        // If text goes on after a call outside a code block, the call counts at most as a notice.
        for text in [
            format!("{form}\n\nThe model wrote this. Its server did not read it.\n\nStart it with --jinja."),
            format!("It looks like this: {form}\nThat is how it is written."),
        ] {
            assert!(found(&text).is_none_or(|found| !found.ends_with('!')), "{text}");
        }
    }
    for text in [
        "Both `Action:` and `Action Input:` are lines of ReAct.",
        "Action: merge the branch\nOwner: Ada",
        "Action: bash\n\nThen look at the output.",
        "[read(path) for path in paths]",
        "[bash](https://example.org/bash)",
        "See [read(1)] and [bash(1)].",
        "```python\nresults = [read(path=\"a\") for _ in x]\n```",
        "<list><item>a</item></list>",
        "Put `<bash>` around it, and close it with `</bash>`.",
        "<details><summary>bash</summary>ls</details>",
        "import functools\n[1, 2]",
        "The `<tool_name>` element holds the name.",
        "```html\n<table><tr><td>read</td></tr></table>\n```",
    ] {
        assert_eq!(found(text), None, "{text}");
    }
}

proptest::proptest! {
    /// No text makes the search fail, and text around a call in a block with an introduction never turns it into a call.
    #[test]
    fn any_text_is_read(before in "[a-z .`<>\\[\\]{}()=\"'\n]{0,40}", at in 0..FORMS.len(), cut in 0_usize..200) {
        let form = FORMS[at];
        let end = form.char_indices().map(|(at, _)| at).take(cut).last().unwrap_or(0);
        let _ = written_calls(&format!("{before}{}", &form[..end]), &["read", "bash"]);
        let _ = written_calls(&format!("{}{before}", &form[..end]), &["read", "bash"]);
        let words = before.replace('`', "");
        let text = format!("{}\n\nFor example:\n\n```\n{form}\n```", words.trim_matches(['<', '[', '{', '(']));
        if words.chars().all(|c| c.is_ascii_lowercase() || matches!(c, ' ' | '.' | '\n')) {
            proptest::prop_assert_eq!(found(&text), None);
        }
    }
}

#[test]
fn the_reason_names_calls_and_what_to_do() {
    let calls = written_calls(
        "<function=hammer></function>\n<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>",
        &["read"],
    )
    .unwrap();
    let text = calls.explain("openai/small");
    for word in ["openai/small wrote 2 tool calls (`hammer`, `read`)", "no tool `hammer`", "--jinja"] {
        assert!(text.contains(word), "{word}: {text}");
    }
}
