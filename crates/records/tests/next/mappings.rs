//! The rows with mappings.

use super::tested_rows::TestedRows;
use crate::values::mappings;

/// Tests each with a mapping, because trailing defaults are not written.
pub fn test(tested: &mut TestedRows) {
    tested.test("instances", [mappings::group_mapping()]);
    tested.test("instances", [mappings::candidate()]);
    tested.test("cell_rows", [mappings::instance()]);
    tested.test("cell_rows", [mappings::job()]);
}
