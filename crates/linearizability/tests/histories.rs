//! Histories that are known to be linearizable, and histories that are known not to be.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on should say where"
)]

use placewright_linearizability::provider::ProviderModel;
use placewright_linearizability::{Model, Operation, Verdict, check, history};

/// The verdict on a history in short form. Each line has the client, the times of call and return (0 if there is no
/// return), the input, and the output.
fn verdict(lines: &[(u32, u64, u64, &str, &str)]) -> Verdict {
    let text: String = lines
        .iter()
        .map(|(client, call, answered, input, output)| {
            let answered = match answered {
                0 => "null".to_owned(),
                time => time.to_string(),
            };
            format!(
                "{{\"object\":\"p\",\"client\":{client},\"call\":{call},\"answered\":{answered},\
                 \"input\":{{\"do\":{input}}},\"output\":{output}}}\n"
            )
        })
        .collect();
    let objects = history::read(text.as_bytes()).unwrap();
    check::<ProviderModel>(&objects["p"])
}

fn is_linearizable(lines: &[(u32, u64, u64, &str, &str)]) -> bool {
    verdict(lines) == Verdict::Linearizable
}

const CREATE: &str = r#""create""#;
const CREATED: &str = r#"{"is":"generation","generation":0}"#;
const SET_10: &str = r#""set_inventory","total":10,"generation":0"#;
const IS_10: &str = r#"{"is":"inventory","generation":1,"total":10}"#;
const CLAIM_7: &str = r#""claim","consumer":0,"amount":7,"expected":"new""#;
const OTHER_7: &str = r#""claim","consumer":1,"amount":7,"expected":"new""#;
const AGAIN_7: &str = r#""claim","consumer":0,"amount":7,"expected":"anything""#;
const DONE: &str = r#"{"is":"done"}"#;
const REFUSED: &str = r#"{"is":"refused"}"#;
const USAGE: &str = r#""show_usage""#;
const USES_0: &str = r#"{"is":"usage","generation":1,"used":0}"#;
const USES_7: &str = r#"{"is":"usage","generation":2,"used":7}"#;
const SHOW: &str = r#""show_allocation","consumer":0"#;
const HAS_NOTHING: &str =
    r#"{"is":"allocation","amount":0,"generation":null,"provider_generation":null}"#;
const HAS_7: &str = r#"{"is":"allocation","amount":7,"generation":1,"provider_generation":2}"#;
const HAS_7_TWICE: &str =
    r#"{"is":"allocation","amount":7,"generation":2,"provider_generation":3}"#;
const NONE: &str = "null";

/// A provider with an inventory of 10, made before time 10.
fn after_setup(
    lines: &[(u32, u64, u64, &'static str, &'static str)],
) -> Vec<(u32, u64, u64, &'static str, &'static str)> {
    let mut all = vec![(0, 1, 2, CREATE, CREATED), (0, 3, 4, SET_10, IS_10)];
    all.extend_from_slice(lines);
    all
}

#[test]
fn one_operation_after_the_other_is_linearizable() {
    assert!(is_linearizable(&after_setup(&[
        (1, 10, 11, USAGE, USES_0),
        (1, 12, 13, CLAIM_7, DONE),
        (2, 14, 15, OTHER_7, REFUSED),
        (1, 16, 17, SHOW, HAS_7),
        (1, 18, 19, USAGE, USES_7),
    ])));
}

#[test]
fn a_read_that_is_concurrent_with_a_write_may_see_it_or_not() {
    for seen in [USES_0, USES_7] {
        assert!(is_linearizable(&after_setup(&[
            (1, 10, 20, CLAIM_7, DONE),
            (2, 11, 12, USAGE, seen),
        ])));
    }
}

#[test]
fn a_stale_read_is_found() {
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 20, CLAIM_7, DONE),
        (2, 21, 22, USAGE, USES_0),
    ])));
}

#[test]
fn a_read_after_another_read_does_not_go_back() {
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 30, CLAIM_7, DONE),
        (2, 11, 12, USAGE, USES_7),
        (3, 13, 14, USAGE, USES_0),
    ])));
}

#[test]
fn a_lost_write_is_found() {
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 11, CLAIM_7, DONE),
        (1, 12, 13, SHOW, HAS_NOTHING),
    ])));
}

#[test]
fn a_write_that_took_effect_twice_is_found() {
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 11, CLAIM_7, DONE),
        (1, 12, 13, SHOW, HAS_7_TWICE),
    ])));
}

#[test]
fn two_claims_that_do_not_fit_together_are_found() {
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 20, CLAIM_7, DONE),
        (2, 11, 21, OTHER_7, DONE),
    ])));
    assert!(is_linearizable(&after_setup(&[
        (1, 10, 20, CLAIM_7, DONE),
        (2, 11, 21, OTHER_7, REFUSED),
    ])));
    // The refused claim was called first, but may have taken effect second.
    assert!(is_linearizable(&after_setup(&[
        (2, 10, 21, OTHER_7, REFUSED),
        (1, 11, 20, CLAIM_7, DONE),
    ])));
}

#[test]
fn a_write_without_an_answer_may_take_effect_at_any_later_time_or_never() {
    let unknown = (1, 10, 0, CLAIM_7, NONE);
    assert!(is_linearizable(&after_setup(&[
        unknown,
        (2, 11, 12, USAGE, USES_0),
        (2, 13, 14, USAGE, USES_0),
    ])));
    assert!(is_linearizable(&after_setup(&[
        unknown,
        (2, 11, 12, USAGE, USES_0),
        (2, 1000, 1001, USAGE, USES_7),
    ])));
    // The write may not take effect before its call, or twice, and its effect may not vanish again.
    assert!(!is_linearizable(&after_setup(&[
        (2, 6, 7, USAGE, USES_7),
        unknown,
    ])));
    assert!(!is_linearizable(&after_setup(&[
        (1, 10, 0, AGAIN_7, NONE),
        (2, 11, 12, SHOW, HAS_7_TWICE),
    ])));
    assert!(!is_linearizable(&after_setup(&[
        unknown,
        (2, 11, 12, USAGE, USES_7),
        (2, 13, 14, USAGE, USES_0),
    ])));
}

#[test]
fn a_repeated_write_without_an_answer_may_take_effect_each_time() {
    assert!(is_linearizable(&after_setup(&[
        (1, 10, 0, AGAIN_7, NONE),
        (2, 11, 12, AGAIN_7, DONE),
        (2, 13, 14, SHOW, HAS_7_TWICE),
    ])));
}

#[test]
fn a_failure_says_what_cannot_follow() {
    let Verdict::NotLinearizable(text) = verdict(&after_setup(&[
        (1, 10, 20, CLAIM_7, DONE),
        (2, 21, 22, USAGE, USES_0),
    ])) else {
        panic!("a stale read");
    };
    assert!(text.contains("3 of 4 operations have an order"), "{text}");
    assert!(text.contains("client 2, 21 to 22: ShowUsage"), "{text}");
}

#[test]
fn lines_that_are_no_operations_are_named() {
    for (line, reason) in [
        ("{", "line 1: "),
        (
            r#"{"object":"p","client":0,"call":1,"answered":2,"input":{"do":"create"},"output":null}"#,
            "neither",
        ),
        (
            r#"{"object":"p","client":0,"call":1,"answered":null,"input":{"do":"release","consumer":4},"output":null}"#,
            "consumer",
        ),
    ] {
        let error = history::read(line.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
}

/// A register with a number, for which each operation swaps another number.
#[derive(Debug)]
struct Register;

impl Model for Register {
    type State = u32;
    type Input = Option<u32>;
    type Output = u32;

    fn initial() -> u32 {
        0
    }

    fn step(state: &u32, input: &Option<u32>) -> (u32, u32) {
        (*state, input.unwrap_or(*state))
    }
}

/// Whether there is an order that explains every answer, found by trying all orders. This is the definition, and fast
/// enough for few operations. `used` has a bit for each operation that is in the order already, and `state` is the
/// state after these.
fn has_order(operations: &[Operation<Option<u32>, u32>], used: u32, state: u32) -> bool {
    let left = || (0..operations.len()).filter(|number| used & (1 << number) == 0);
    let answered = left().filter_map(|number| operations[number].answer);
    let Some(first_return) = answered.map(|(time, _)| time).min() else {
        return true;
    };
    left().any(|number| {
        let operation = &operations[number];
        let (output, next) = Register::step(&state, &operation.input);
        let is_possible = operation.call <= first_return
            && operation.answer.is_none_or(|(_, answer)| answer == output);
        is_possible && has_order(operations, used | (1 << number), next)
    })
}

proptest::proptest! {
    #[test]
    fn the_search_finds_what_trying_all_orders_finds(
        lines in proptest::collection::vec(
            (0_u64..20, 1_u64..8, proptest::option::of(1_u32..3), 0_u32..3, proptest::bool::weighted(0.8)),
            1..8,
        )
    ) {
        let operations: Vec<Operation<Option<u32>, u32>> = lines
            .into_iter()
            .map(|(call, length, input, output, is_answered)| Operation {
                client: 0,
                call,
                answer: is_answered.then_some((call + length, output)),
                input,
            })
            .collect();
        let found = check::<Register>(&operations) == Verdict::Linearizable;
        proptest::prop_assert_eq!(found, has_order(&operations, 0, 0));
    }
}
