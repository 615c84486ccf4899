//! A field is added to each message of the agents' protocol, and written and read both ways.
//!
//! The later release is played by the protocol's own text with one field more in each message, which
//! is compiled here and used by reflection; this release by the generated code. Every message has a
//! value in every field, one for each choice.

#![expect(clippy::unwrap_used, reason = "a test stops where it goes wrong")]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use placewright_rpc::proto::agent::{FromAgent, FromCell};
use prost::Message;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    Value,
};

const ADDED: &str = "of_a_later_release";
const PACKAGE: &str = "placewright.agent.v1";

/// The protocol as a later release has it.
fn later_protocol() -> DescriptorPool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let text = std::fs::read_to_string(here.join("placewright/agent.proto")).unwrap();
    let later: String = text
        .lines()
        .map(|line| {
            let is_empty = line.starts_with("message ") && line.ends_with("{}");
            let begins = line.starts_with("message ") && line.ends_with('{');
            let field = format!("  string {ADDED} = 9999;\n");
            match (is_empty, begins) {
                (true, _) => format!("{}{{\n{field}}}\n", line.trim_end_matches("{}")),
                (_, true) => format!("{line}\n{field}"),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("agent.proto"), later).unwrap();
    let files = protox::compile(["agent.proto"], [folder.path()]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

/// Messages of a type with a value in every field, one for each choice of a `oneof`.
fn filled(of: &MessageDescriptor, is_later: bool, seen: &mut BTreeSet<String>) -> Vec<Value> {
    seen.insert(of.name().to_owned());
    let mut base = DynamicMessage::new(of.clone());
    let is_added = |field: &FieldDescriptor| field.name() == ADDED;
    let is_choice = |field: &FieldDescriptor| {
        let choice = field.containing_oneof();
        // A field that may be absent is a choice of one.
        choice.is_some_and(|choice| !choice.is_synthetic())
    };
    for field in of.fields().filter(|field| !is_choice(field)) {
        if is_added(&field) {
            if is_later {
                base.set_field(&field, Value::String("anything".into()));
            }
            continue;
        }
        let mut values = of_field(&field, is_later, seen);
        let value = match field.cardinality() {
            _ if field.is_map() => {
                let value = values.remove(0);
                Value::Map([(MapKey::String("key".into()), value)].into())
            }
            Cardinality::Repeated => Value::List(values),
            _ => values.remove(0),
        };
        base.set_field(&field, value);
    }
    let mut all = Vec::new();
    for field in of.fields().filter(is_choice) {
        for value in of_field(&field, is_later, seen) {
            let mut one = base.clone();
            one.set_field(&field, value);
            all.push(Value::Message(one));
        }
    }
    if all.is_empty() {
        all.push(Value::Message(base));
    }
    all
}

/// Values for a field, or for the items of a list or map.
fn of_field(field: &FieldDescriptor, is_later: bool, seen: &mut BTreeSet<String>) -> Vec<Value> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            of_field(&entry.map_entry_value_field(), is_later, seen)
        }
        Kind::Message(of) => filled(&of, is_later, seen),
        Kind::Enum(_) => vec![Value::EnumNumber(1)],
        Kind::String => vec![Value::String("text".into())],
        Kind::Bool => vec![Value::Bool(true)],
        Kind::Double => vec![Value::F64(0.5)],
        Kind::Uint32 => vec![Value::U32(300)],
        Kind::Uint64 => vec![Value::U64(300)],
        Kind::Int32 | Kind::Sint32 => vec![Value::I32(-300)],
        Kind::Int64 | Kind::Sint64 => vec![Value::I64(-300)],
        other => panic!("what is a value of {other:?}?"),
    }
}

fn assert_grows<T: Message + Default + PartialEq + Debug>(
    pool: &DescriptorPool,
    seen: &mut BTreeSet<String>,
) {
    let name = std::any::type_name::<T>().rsplit("::").next().unwrap();
    let of = pool
        .get_message_by_name(&format!("{PACKAGE}.{name}"))
        .unwrap();
    let later = filled(&of, true, seen);
    let today = filled(&of, false, seen);
    assert_eq!(later.len(), today.len());
    for (later, today) in later.iter().zip(&today) {
        let bytes = |value: &Value| value.as_message().unwrap().encode_to_vec();
        assert_ne!(bytes(later), bytes(today));
        // This release reads what a later one wrote, without what it does not know.
        let read = T::decode(&*bytes(later)).unwrap();
        assert_eq!(read, T::decode(&*bytes(today)).unwrap());
        assert_ne!(read, T::default());
        // The later one reads what this one writes; what it has more is empty.
        let again = DynamicMessage::decode(of.clone(), &*read.encode_to_vec()).unwrap();
        assert_eq!(Value::Message(again), *today);
        // And its own.
        let own = DynamicMessage::decode(of.clone(), &*bytes(later)).unwrap();
        assert_eq!(Value::Message(own), *later);
    }
}

#[test]
fn every_message_of_agents_grows() {
    let pool = later_protocol();
    let mut seen = BTreeSet::new();
    assert_grows::<FromAgent>(&pool, &mut seen);
    assert_grows::<FromCell>(&pool, &mut seen);
    let declared = pool.all_messages().filter(|one| !one.is_map_entry());
    let declared: BTreeSet<String> = declared.map(|one| one.name().to_owned()).collect();
    assert_eq!(seen, declared);
    for message in pool.all_messages().filter(|one| !one.is_map_entry()) {
        assert!(
            message.get_field_by_name(ADDED).is_some(),
            "{} has no field more",
            message.name()
        );
    }
}
