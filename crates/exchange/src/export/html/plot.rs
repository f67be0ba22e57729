//! The plot of the size of the context.

use super::words::thousands;
use becket_types::{Seq, Usage};
use std::fmt::Write as _;

/// Draws the size of the context at each request, with compactions as lines.
pub(super) fn tokens(points: &[(Seq, Usage)], compactions: &[Seq]) -> String {
    const W: f64 = 800.0;
    const H: f64 = 180.0;
    const LEFT: f64 = 44.0;
    const TOP: f64 = 14.0;
    let points: Vec<(Seq, u64)> = points.iter().map(|(seq, u)| (*seq, u.context().0)).collect();
    let most = points.iter().map(|(_, n)| *n).max().unwrap_or(0);
    if points.len() < 2 || most == 0 {
        return String::new();
    }
    let x = |at: usize| LEFT + (W - LEFT - 8.0) * at as f64 / (points.len() - 1) as f64;
    let y = |n: u64| TOP + (H - TOP - 22.0) * (1.0 - n as f64 / most as f64);
    let mut out = format!(
        "<svg viewBox=\"0 0 {W} {H}\" role=\"img\" aria-label=\"Context at each request\">\
         <title>Context in tokens at each of {} requests</title>",
        points.len()
    );
    for share in [0, 1, 2] {
        let n = most * share / 2;
        let _ = write!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"currentColor\" stroke-opacity=\".15\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            W - 8.0,
            LEFT - 5.0,
            y(n) + 4.0,
            thousands(n),
            y = y(n),
        );
    }
    for seq in compactions {
        let at = points.partition_point(|(point, _)| point < seq).min(points.len() - 1);
        let x = x(at);
        let _ = write!(
            out,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{}\" stroke=\"var(--accent)\" stroke-dasharray=\"3 3\">\
             <title>compaction, entry {seq}</title></line>",
            H - 22.0
        );
    }
    out.push_str("<polyline fill=\"none\" stroke=\"var(--accent)\" stroke-width=\"2\" points=\"");
    for (at, (_, n)) in points.iter().enumerate() {
        let _ = write!(out, "{:.1},{:.1} ", x(at), y(*n));
    }
    let _ = write!(
        out,
        "\"/><text x=\"{LEFT}\" y=\"{}\">context in tokens, request by request; dashed: compactions</text></svg>",
        H - 6.0
    );
    out
}
