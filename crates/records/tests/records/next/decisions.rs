//! The rows of decisions.

use super::tested_rows::TestedRows;
use crate::values::decisions;

/// Tests the rows of decisions and of rankings.
pub(crate) fn test(tested: &mut TestedRows) {
    tested.test("control_rows", [decisions::decision()]);
    tested.test("control_rows", [decisions::fallen()]);
    tested.test("conductor_commands", [decisions::ranked_candidates()]);
    tested.test("ranking", [decisions::ranking()]);
    tested.test("ranking", [decisions::weigher("RAMWeigher")]);
    tested.test("ranking", [decisions::ranked_host()]);
}
