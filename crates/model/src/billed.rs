//! Reads the cost of a request from the usage that a provider reports.
//!
//! Pure. Prices of the catalog are used where a provider says nothing; the caller decides that.

use serde_json::Value;

/// The cost of the request in billionths of a US dollar; 0 if the usage names none.
///
/// - OpenRouter, Vercel: `cost`, in dollars. If the user's own key at the vendor was used, `cost` is the fee alone, and
///   `cost_details.upstream_inference_cost` is the vendor's price.
/// - Perplexity: `cost.total_cost`, in dollars.
/// - xAI: `cost_in_usd_ticks`, in 10^-10 dollars.
pub(crate) fn billed(usage: &Value) -> u64 {
    if let Some(ticks) = usage["cost_in_usd_ticks"].as_f64() {
        return billionths(ticks / 1e10);
    }
    let cost = usage["cost"].as_f64().or_else(|| usage["cost"]["total_cost"].as_f64());
    let upstream = usage["cost_details"]["upstream_inference_cost"].as_f64();
    let upstream = upstream.filter(|_| usage["is_byok"] == Value::Bool(true)).unwrap_or_default();
    billionths(cost.unwrap_or_default() + upstream)
}

fn billionths(usd: f64) -> u64 {
    // More than a million dollars for one request is a wrong number.
    if usd.is_finite() && (0.0..1e6).contains(&usd) { (usd * 1e9).round() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn costs_as_providers_name_them() {
        for (usage, want) in [
            (json!({"prompt_tokens": 5}), 0),
            (json!({"cost": 0.00125}), 1_250_000),
            (json!({"cost": 0}), 0),
            (
                json!({"cost": 0.0005, "is_byok": true, "cost_details": {"upstream_inference_cost": 0.01}}),
                10_500_000,
            ),
            (
                json!({"cost": 0.02, "is_byok": false, "cost_details": {"upstream_inference_cost": 0.02}}),
                20_000_000,
            ),
            (json!({"cost": {"total_cost": 0.25}}), 250_000_000),
            (json!({"cost_in_usd_ticks": 37_756_000_u64}), 3_775_600),
            (json!({"cost": "free"}), 0),
            (json!({"cost": -1.0}), 0),
            (json!({"cost": 1e300}), 0),
        ] {
            assert_eq!(billed(&usage), want, "{usage}");
        }
    }
}
