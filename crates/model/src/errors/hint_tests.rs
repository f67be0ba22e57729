//! Tests of the next steps that messages name.

use super::*;

#[test]
fn hints_name_what_to_change() {
    let fatal = ["1308".to_owned()];
    for (status, body, kind, hint) in [
        (
            429,
            r#"{"error":{"code":"1308","message":"Usage limit reached for 5 hour. Your limit will reset at 2026-11-27 09:00:00"}}"#,
            ErrorKind::WaitTooLong,
            "--wait-for-quota",
        ),
        (429, r#"{"error":{"code":"1308","message":"No credits left"}}"#, ErrorKind::Billing, "Add credits"),
        (
            403,
            r#"{"message":"Signature expired: 20261127T060000Z is now earlier than 20261127T065500Z"}"#,
            ErrorKind::Auth,
            "The clock of this machine",
        ),
        (
            400,
            r#"{"error":{"message":"max_tokens is too large: 8192. This model supports at most 4096 completion tokens"}}"#,
            ErrorKind::InvalidRequest,
            "`max_output`",
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."}}"#,
            ErrorKind::InvalidRequest,
            "compat.output_limit",
        ),
        (
            400,
            r#"{"error":{"message":"Unsupported value: 'reasoning_effort' does not support 'xhigh' with this model. Supported values are: 'low', 'medium', and 'high'."}}"#,
            ErrorKind::InvalidRequest,
            "--effort",
        ),
        (
            400,
            r#"{"message":"The provided model identifier is invalid."}"#,
            ErrorKind::NotFound,
            "model's name",
        ),
        (
            400,
            r#"{"message":"Invocation of model ID amazon.nova-pro-v1:0 with on-demand throughput isn\u2019t supported. Retry your request with the ID or ARN of an inference profile that contains this model."}"#,
            ErrorKind::NotFound,
            "inference profile",
        ),
        (
            400,
            r#"{"error":{"message":"/chat/completions: Invalid model name passed in model=x. Call `/v1/models` to view available models for your key."}}"#,
            ErrorKind::NotFound,
            "model's name",
        ),
        (
            403,
            "<!DOCTYPE html><html><head><title>Just a moment...</title></head></html>",
            ErrorKind::Auth,
            "A proxy or a firewall",
        ),
        (511, "<html><title>Hotel</title></html>", ErrorKind::Network, "sign in"),
        (401, r#"{"error":{"message":"Your API key has expired"}}"#, ErrorKind::Auth, "Make a new key"),
        (
            400,
            r#"{"error":{"code":400,"message":"API key expired. Please renew the API key.","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            ErrorKind::Auth,
            "Make a new key",
        ),
        (
            403,
            r#"{"message":"The security token included in the request is expired"}"#,
            ErrorKind::Auth,
            "aws sso login",
        ),
        (
            403,
            r#"{"error":{"code":"unsupported_country_region_territory","message":"Country, region, or territory not supported"}}"#,
            ErrorKind::InvalidRequest,
            "does not serve the country",
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"User location is not supported for the API use.","status":"FAILED_PRECONDITION"}}"#,
            ErrorKind::InvalidRequest,
            "does not serve the country",
        ),
    ] {
        let failure =
            Failure { status: Some(status), body, server: "s", fatal_codes: &fatal, ..Failure::default() };
        let error = classify(&failure);
        assert_eq!(error.kind, kind, "{body}");
        assert!(!error.retryable, "{body}");
        assert!(error.hint.as_deref().unwrap_or_default().contains(hint), "{body}: {:?}", error.hint);
    }
}
