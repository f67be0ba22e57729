//! Error bodies as servers write them, and what becket makes of each.

use super::*;
use crate::anthropic::AnthropicDecoder;
use crate::assemble::AnswerOf;
use crate::chat::ChatDecoder;
use crate::decoder::Decoder;
use crate::shortcut::Shortcut;
use ErrorKind as K;
use proptest::prelude::*;

/// Name, status, body, the limit it names.
const OVERFLOWS: &[(&str, u16, &str, Option<u64>)] = &[
    (
        "anthropic",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}"#,
        Some(200_000),
    ),
    (
        "anthropic max_tokens",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length"}}"#,
        Some(200_000),
    ),
    (
        "anthropic without outer type",
        400,
        r#"{"error":{"type":"invalid_request_error","message":"prompt is too long"}}"#,
        None,
    ),
    (
        "openai",
        400,
        r#"{"error":{"message":"This model's maximum context length is 128000 tokens. However, your messages resulted in 130011 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}"#,
        Some(128_000),
    ),
    (
        "openai configured",
        400,
        r#"{"error":{"message":"Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
        Some(272_000),
    ),
    (
        "gemini",
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
        Some(1_048_576),
    ),
    ("bedrock", 400, r#"{"message":"Input is too long for requested model."}"#, None),
    (
        "groq tokens per minute",
        413,
        r#"{"error":{"message":"Request too large for model x on tokens per minute (TPM): Limit 6000, Requested 7000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        Some(6000),
    ),
    (
        "bedrock titan",
        400,
        r#"{"message":"400 Bad Request: Too many input tokens. Max input tokens: 8192, request input token count: 9000"}"#,
        Some(8192),
    ),
    (
        "openrouter",
        400,
        r#"{"error":{"message":"This endpoint's maximum context length is 131072 tokens. However, you requested about 150000 tokens","code":400}}"#,
        Some(131_072),
    ),
    (
        "llama.cpp",
        400,
        r#"{"error":{"code":400,"message":"request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":4096}}"#,
        Some(4096),
    ),
    (
        "llama.cpp older",
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size","type":"exceed_context_size_error","n_prompt_tokens":5000,"n_ctx":2048}}"#,
        Some(2048),
    ),
    ("ollama", 400, r#"{"error":"input length exceeds maximum context length"}"#, None),
    (
        "sglang",
        400,
        r#"{"object":"error","message":"The input (40000 tokens) is longer than the model's context length (32768 tokens).","type":"BadRequestError","code":400}"#,
        Some(32_768),
    ),
    (
        "cohere",
        400,
        r#"{"message":"too many tokens: total number of tokens (prompt and prediction) cannot exceed 4096, received 5000"}"#,
        Some(4096),
    ),
    (
        "tgi",
        422,
        r#"{"error":"Input validation error: `inputs` must have less than 4096 tokens. Given: 5000","error_type":"validation"}"#,
        Some(4096),
    ),
    (
        "ollama newer",
        400,
        r#"{"error":{"message":"prompt too long; exceeded max context length by 12 tokens","type":"invalid_request_error"}}"#,
        None,
    ),
    (
        "vllm",
        400,
        r#"{"object":"error","message":"This model's maximum context length is 32768 tokens. However, you requested 40000 tokens (36000 in the messages, 4000 in the completion).","type":"BadRequestError","param":null,"code":400}"#,
        Some(32_768),
    ),
    (
        "vllm decoder",
        400,
        r#"{"message":"The decoder prompt (length 5000) is longer than the maximum model length of 4096.","code":400}"#,
        Some(4096),
    ),
    (
        "lm studio",
        400,
        r#"{"error":"Trying to keep the first 6000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough."}"#,
        Some(4096),
    ),
    (
        "mistral",
        400,
        r#"{"object":"error","message":"Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#,
        Some(32_768),
    ),
    (
        "xai",
        400,
        r#"{"code":"400","error":"This model's maximum prompt length is 131072 but the request contains 140000 tokens."}"#,
        Some(131_072),
    ),
    (
        "grouped digits",
        400,
        r#"{"error":{"message":"prompt is too long: 210,000 tokens > 200,000 maximum"}}"#,
        None,
    ),
    (
        "tgi",
        422,
        r#"{"error":"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 32769. Given: 40000","error_type":"validation"}"#,
        Some(32_769),
    ),
];

/// Name, status, body, kind, whether it may be sent again.
const KINDS: &[(&str, u16, &str, K, bool)] = &[
    (
        "anthropic key",
        401,
        r#"{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key"}}"#,
        K::Auth,
        false,
    ),
    (
        "anthropic credits",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}"#,
        K::Billing,
        false,
    ),
    (
        "anthropic model",
        404,
        r#"{"type":"error","error":{"type":"not_found_error","message":"model: claude-9"}}"#,
        K::NotFound,
        false,
    ),
    (
        "anthropic overloaded",
        529,
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        K::Overloaded,
        true,
    ),
    (
        "anthropic size",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        K::TooLarge,
        false,
    ),
    (
        "anthropic invalid",
        400,
        r#"{"type":"error","error":{"type":"invalid_request_error","message":"messages.3: tool_use ids were found without tool_result blocks"}}"#,
        K::InvalidRequest,
        false,
    ),
    (
        "openai quota",
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        K::Billing,
        false,
    ),
    (
        "openai rate",
        429,
        r#"{"error":{"message":"Rate limit reached for gpt-5 in organization x on tokens per min. Please try again in 1.2s.","type":"tokens","code":"rate_limit_exceeded"}}"#,
        K::RateLimit,
        true,
    ),
    (
        "openai model",
        404,
        r#"{"error":{"message":"The model `gpt-9` does not exist or you do not have access to it.","type":"invalid_request_error","code":"model_not_found"}}"#,
        K::NotFound,
        false,
    ),
    (
        "openai key",
        401,
        r#"{"error":{"message":"Incorrect API key provided","type":"invalid_request_error","code":"invalid_api_key"}}"#,
        K::Auth,
        false,
    ),
    (
        "openai server",
        500,
        r#"{"error":{"message":"The server had an error","type":"server_error"}}"#,
        K::Server,
        true,
    ),
    (
        "gemini quota",
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota","status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"12s"}]}}]"#,
        K::RateLimit,
        true,
    ),
    (
        "gemini key",
        400,
        r#"[{"error":{"code":400,"message":"API key not valid. Please pass a valid API key.","status":"INVALID_ARGUMENT"}}]"#,
        K::Auth,
        false,
    ),
    (
        "gemini busy",
        503,
        r#"{"error":{"code":503,"message":"The model is overloaded. Please try again later.","status":"UNAVAILABLE"}}"#,
        K::Overloaded,
        true,
    ),
    (
        "openrouter credits",
        402,
        r#"{"error":{"message":"This request requires more credits","code":402}}"#,
        K::Billing,
        false,
    ),
    (
        "deepseek balance",
        402,
        r#"{"error":{"message":"Insufficient Balance","type":"unknown_error","code":"invalid_request_error"}}"#,
        K::Billing,
        false,
    ),
    (
        "ollama model",
        404,
        r#"{"error":{"message":"model \"llama9\" not found, try pulling it first","type":"api_error"}}"#,
        K::NotFound,
        false,
    ),
    (
        "llama.cpp loading",
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        K::Loading,
        true,
    ),
    (
        "Hugging Face loading",
        503,
        r#"{"error":"Model bigscience/bloom is currently loading","estimated_time":20.0}"#,
        K::Loading,
        true,
    ),
    (
        "llama.cpp cut call",
        500,
        r#"{"error":{"code":500,"message":"Failed to parse tool call arguments as JSON: [json.exception.parse_error.101]","type":"server_error"}}"#,
        K::InvalidRequest,
        false,
    ),
    (
        "azure filter",
        400,
        r#"{"error":{"message":"The response was filtered due to the prompt triggering Azure OpenAI's content management policy.","code":"content_filter"}}"#,
        K::Refusal,
        false,
    ),
    (
        "vllm plain",
        400,
        r#"{"object":"error","message":"[{'type': 'missing'}]","type":"BadRequestError","code":400}"#,
        K::InvalidRequest,
        false,
    ),
    ("fastapi", 422, r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#, K::InvalidRequest, false),
    ("nginx", 502, "<html><head><title>502 Bad Gateway</title></head></html>", K::Server, true),
    ("gateway", 504, "upstream request timeout", K::Timeout, true),
    ("cloudflare", 524, "", K::Server, true),
    ("nothing", 500, "", K::Server, true),
    ("redirect", 301, "", K::InvalidRequest, false),
];

fn check(status: u16, body: &str) -> ModelError {
    classify(&Failure { status: Some(status), body, server: "the server", ..Failure::default() })
}

#[test]
fn overflow_in_every_dialect() {
    for &(name, status, body, limit) in OVERFLOWS {
        let error = check(status, body);
        assert_eq!(error.kind, ErrorKind::ContextOverflow, "{name}: {error:?}");
        assert!(!error.retryable, "{name}");
        if name == "grouped digits" {
            assert_eq!(error.limit, Some(200_000), "{name}");
        } else {
            assert_eq!(error.limit, limit, "{name}");
        }
    }
}

/// Name, status, body, the limit in bytes that it names.
const SIZES: &[(&str, u16, &str, Option<u64>)] = &[
    ("no body", 413, "", None),
    (
        "nginx",
        413,
        "<html>\r\n<head><title>413 Request Entity Too Large</title></head>\r\n<body>nginx</body></html>",
        None,
    ),
    ("cloudflare", 413, "<html><head><title>413 Payload Too Large</title></head></html>", None),
    (
        "anthropic",
        413,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum size"}}"#,
        None,
    ),
    (
        "anthropic in a stream",
        200,
        r#"{"type":"error","error":{"type":"request_too_large","message":"Request exceeds the maximum allowed number of bytes."}}"#,
        None,
    ),
    (
        "express",
        413,
        r#"{"message":"request entity too large","expected":150000,"length":150000,"limit":102400,"type":"entity.too.large"}"#,
        Some(102_400),
    ),
    (
        "gemini",
        400,
        r#"{"error":{"code":400,"message":"Request payload size exceeds the limit: 20971520 bytes.","status":"INVALID_ARGUMENT"}}"#,
        Some(20_971_520),
    ),
    (
        "litellm",
        400,
        r#"{"error":{"message":"Request size is too large. Request size is 12.5 MB. Max size is 10 MB","type":"bad_request_error","code":"400"}}"#,
        Some(10 << 20),
    ),
    (
        "bedrock",
        400,
        r#"{"message":"1 validation error detected: Value at 'body' failed to satisfy constraint: Member must have length less than or equal to 25000000"}"#,
        Some(25_000_000),
    ),
    (
        "lambda",
        413,
        r#"{"message":"Request must be smaller than 6291456 bytes for the InvokeFunction operation","Type":"User"}"#,
        Some(6_291_456),
    ),
    ("api gateway", 413, r#"{"message":"Request Too Long"}"#, None),
    ("vercel", 413, "Request Entity Too Large\n\nFUNCTION_PAYLOAD_TOO_LARGE\n", None),
    ("axum", 413, "Failed to buffer the request body: length limit exceeded", None),
    ("go", 400, "http: request body too large", None),
    (
        "actix",
        400,
        "JSON payload (3145728 bytes) is larger than allowed (limit: 2097152 bytes).",
        Some(2_097_152),
    ),
    ("aiohttp", 413, "Maximum request body size 1048576 exceeded, actual body size 1200000", Some(1_048_576)),
    ("next.js", 500, r#"{"error":"Body exceeded 1mb limit"}"#, Some(1_048_576)),
    ("kong", 417, r#"{"message":"Request size limit exceeded"}"#, None),
    (
        "own",
        413,
        r#"{"error":{"message":"Request too large. Maximum is 1,048,576 bytes."}}"#,
        Some(1_048_576),
    ),
];

/// A limit on bytes is not one on tokens, in whatever words and with whatever status it is given.
#[test]
fn too_many_bytes_in_every_dialect() {
    for &(name, status, body, limit) in SIZES {
        let error = check(status, body);
        assert_eq!((error.kind, error.limit), (ErrorKind::TooLarge, limit), "{name}: {error:?}");
        assert!(!error.retryable, "{name}");
    }
}

#[test]
fn kinds_in_every_dialect() {
    for &(name, status, body, kind, retryable) in KINDS {
        let error = check(status, body);
        assert_eq!((error.kind, error.retryable), (kind, retryable), "{name}: {error:?}");
        assert_eq!(error.status, Some(status), "{name}");
    }
}

#[test]
fn waits_are_read_from_bodies() {
    for (text, want) in [
        ("Please try again in 1.2s.", Some(1200)),
        ("Please try again in 350ms.", Some(350)),
        ("Please try again in 2m3.5s.", Some(123_500)),
        ("Please try again in 1h.", Some(3_600_000)),
        ("Please try again later.", None),
    ] {
        assert_eq!(retry_in_text(text), want.map(Millis), "{text}");
    }
    let error = check(429, r#"[{"error":{"code":429,"message":"slow","details":[{"retryDelay":"12s"}]}}]"#);
    assert_eq!(error.retry_after, Some(Millis(12_000)));
}

#[test]
fn errors_inside_a_stream_have_no_status_of_their_own() {
    let failure = |body| classify(&Failure { body, server: "s", ..Failure::default() });
    let error = failure(r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#);
    assert_eq!((error.kind, error.status), (ErrorKind::Overloaded, None));
    let error = failure(r#"{"error":{"code":429,"message":"slow down"}}"#);
    assert_eq!((error.kind, error.status), (ErrorKind::RateLimit, Some(429)));
    let error = failure(
        r#"{"error":{"code":"502","message":"Provider returned error","metadata":{"raw":"upstream died"}}}"#,
    );
    assert_eq!((error.kind, error.status), (ErrorKind::Server, Some(502)));
    assert!(error.message.contains("upstream died"));
}

proptest! {
    #[test]
    fn no_body_panics(status in 0u16..1000, body in "\\PC{0,80}|[\\[\\]{}\":,0-9a-z]{0,60}") {
        let error = check(status, &body);
        prop_assert!(error.message.len() < 2 * SHOWN + 200);
    }
}

/// Any JSON value in the position of a server's error.
fn error_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,20}|overloaded_error|prompt is too long".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        let key = prop::sample::select(vec!["type", "message", "code", "error", "status", "content", "text"]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..4)
                .prop_map(|pairs| pairs.into_iter().map(|(k, v)| (k.to_owned(), v)).collect()),
        ]
    })
}

/// Feeds the decoder these deltas and then this event. Returns the text so far, and the error if there was one.
fn decode(
    mut decoder: impl Decoder,
    delta: &str,
    deltas: usize,
    event: &Value,
) -> (String, Result<(), ModelError>) {
    for _ in 0..deltas {
        decoder.event("", delta).unwrap();
    }
    let result = decoder.event("", &event.to_string());
    let text = decoder.assembler().take().into_iter().map(|event| match event {
        crate::ModelEvent::TextDelta { text, .. } => text,
        other => format!("{other:?}"),
    });
    (text.collect(), result)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: ProptestConfig::default().cases.max(10_000),
        ..ProptestConfig::default()
    })]

    /// 10,000 cases: an error, whatever it looks like, ends the answer as a typed error; nothing of it is content, also
    /// if there is content beside it.
    #[test]
    fn an_error_never_becomes_content(error in error_value(), beside in any::<bool>(), deltas in 0usize..4) {
        let chat = r#"{"choices":[{"index":0,"delta":{"content":"so far "}}]}"#;
        let anthropic = r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"so far "}}"#;
        let want = "so far ".repeat(deltas);
        let with = |delta: &str, fields: &[(&str, Value)]| {
            let mut event = if beside { serde_json::from_str(delta).unwrap() } else { serde_json::json!({}) };
            for (key, value) in fields {
                event[*key] = value.clone();
            }
            event
        };
        for fields in [&[("error", error.clone())][..], &[("object", "error".into()), ("message", error.clone())]] {
            let decoder = Shortcut::new(ChatDecoder::new, AnswerOf::default());
            let (text, result) = decode(decoder, chat, deltas, &with(chat, fields));
            prop_assert_eq!(&text, &want);
            prop_assert!(result.is_err(), "{fields:?}");
        }
        for fields in [&[("error", error.clone())][..], &[("type", "error".into()), ("error", error.clone())]] {
            let decoder = Shortcut::new(AnthropicDecoder::new, AnswerOf::default());
            let (text, result) = decode(decoder, anthropic, deltas, &with(anthropic, fields));
            prop_assert_eq!(&text, &want);
            prop_assert!(result.is_err(), "{fields:?}");
        }
        let document = serde_json::json!({"error": error, "choices": [{"message": {"content": "x"}}], "content": []});
        prop_assert!(ChatDecoder::new(AnswerOf::default()).document(&document.to_string()).is_err());
        prop_assert!(AnthropicDecoder::new(AnswerOf::default()).document(&document.to_string()).is_err());
    }
}

#[test]
fn refusals_of_chat_templates_are_told_from_errors_that_no_layout_cures() {
    for (status, message, want) in [
        (500, "Value is not callable: System message must be at the beginning. at row 14", K::Template),
        (400, "Conversation roles must alternate user/assistant/user/assistant/...", K::Template),
        (400, "messages: roles must alternate between \"user\" and \"assistant\"", K::Template),
        (400, "Unexpected role 'user' after role 'tool'", K::Template),
        (500, "This model only supports single tool-calls at once!", K::Template),
        (
            400,
            "Error rendering prompt with jinja template: \"No user query found in messages.\"",
            K::Template,
        ),
        (500, "TypeError: can only concatenate str (not \"NoneType\") to str", K::Template),
        (500, "tools param requires --jinja flag", K::Server),
        (
            400,
            "Cannot use chat template functions because tokenizer.chat_template is not set",
            K::InvalidRequest,
        ),
        (401, "roles must alternate", K::Auth),
        (429, "chat template service: too many requests", K::RateLimit),
        (500, "internal error", K::Server),
    ] {
        let kind = if status == 500 { "server_error" } else { "invalid_request_error" };
        let body = serde_json::json!({"error": {"message": message, "type": kind, "code": status}});
        let error =
            classify(&Failure { status: Some(status), body: &body.to_string(), ..Failure::default() });
        assert_eq!(error.kind, want, "{message}");
        assert!(want != K::Template || !error.retryable);
    }
}
