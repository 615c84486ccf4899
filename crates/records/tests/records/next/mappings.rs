//! The rows with mappings.

use super::tested_rows::TestedRows;
use crate::values::mappings;

/// Tests each of these rows with a mapping, because trailing fields that have their defaults are not written.
pub(crate) fn test(tested: &mut TestedRows) {
    tested.test("instances", [mappings::group_mapping()]);
    tested.test("instances", [mappings::candidate()]);
    tested.test("cell_rows", [mappings::instance()]);
    tested.test("cell_rows", [mappings::job()]);
}
