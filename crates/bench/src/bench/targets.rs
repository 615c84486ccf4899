//! Measured figures with their targets: the least or the greatest values that they may have. The output calls a target
//! a bar, and JSON has its value as `bound`.

use serde::Serialize;

/// A measured figure with its target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TargetedFigure {
    name: &'static str,
    figure: f64,
    /// "at least" or "at most".
    relation: &'static str,
    #[serde(rename = "bound")]
    target: f64,
    pub(crate) is_met: bool,
}

/// A figure that must not be smaller than its target.
pub(crate) fn at_least(name: &'static str, figure: f64, target: f64) -> TargetedFigure {
    TargetedFigure {
        name,
        figure,
        relation: "at least",
        target,
        is_met: figure >= target,
    }
}

/// A figure that must not be larger than its target.
pub(crate) fn at_most(name: &'static str, figure: f64, target: f64) -> TargetedFigure {
    TargetedFigure {
        name,
        figure,
        relation: "at most",
        target,
        is_met: figure <= target,
    }
}

/// A count as a figure.
#[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// Prints `json`, the whole report, if it is given, and otherwise the figures as text.
pub(crate) fn print_report(
    figures: &[TargetedFigure],
    json: Option<&impl Serialize>,
) -> anyhow::Result<()> {
    if let Some(json) = json {
        outln!("{}", serde_json::to_string(json)?);
        return Ok(());
    }
    for TargetedFigure {
        name,
        figure,
        relation,
        target,
        is_met,
    } in figures
    {
        let met_text = if *is_met { "met" } else { "MISSED" };
        outln!("bar: {name}: {figure:.1} ({relation} {target}): {met_text}");
    }
    Ok(())
}
