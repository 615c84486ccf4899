//! Measured figures with the targets that they have to meet. The output calls such a target a bar.

use serde::Serialize;

/// A measured figure with its target.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct TargetedFigure {
    name: &'static str,
    figure: f64,
    /// "at least" or "at most".
    relation: &'static str,
    bound: f64,
    pub(crate) is_met: bool,
}

/// A figure that must not be smaller than its bound.
pub(crate) fn at_least(name: &'static str, figure: f64, bound: f64) -> TargetedFigure {
    TargetedFigure {
        name,
        figure,
        relation: "at least",
        bound,
        is_met: figure >= bound,
    }
}

/// A figure that must not be larger than its bound.
pub(crate) fn at_most(name: &'static str, figure: f64, bound: f64) -> TargetedFigure {
    TargetedFigure {
        name,
        figure,
        relation: "at most",
        bound,
        is_met: figure <= bound,
    }
}

/// A count as a figure.
#[allow(clippy::cast_precision_loss, reason = "counts are below 2^53")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

/// Prints the figures as text, or the whole report as JSON if there is one.
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
        bound,
        is_met,
    } in figures
    {
        let met_text = if *is_met { "met" } else { "MISSED" };
        outln!("bar: {name}: {figure:.1} ({relation} {bound}): {met_text}");
    }
    Ok(())
}
