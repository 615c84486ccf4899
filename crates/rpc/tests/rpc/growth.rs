//! Releases with and without an added field in each message of the agents' protocol read each other's
//! messages.
//!
//! The later release is the protocol with one more field in each message, compiled by the test and used
//! by reflection. This release is the generated code. Each message has a value in every field, and there
//! is one message for each variant of a `oneof`.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use placewright_rpc::proto::agent::{FromAgent, FromCell};
use prost::Message;
use prost_reflect::{
    Cardinality, DescriptorPool, DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor,
    Value,
};

const ADDED_FIELD: &str = "of_a_later_release";
const PACKAGE: &str = "placewright.agent.v1";

/// The release whose messages are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Release {
    Present,
    /// The added field of each message has a value.
    Later,
}

/// The protocol as a later release has it.
fn later_protocol() -> DescriptorPool {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    let text = std::fs::read_to_string(here.join("placewright/agent.proto")).unwrap();
    let later_protocol_text: String = text
        .lines()
        .map(|line| {
            let is_empty = line.starts_with("message ") && line.ends_with("{}");
            let is_message_start = line.starts_with("message ") && line.ends_with('{');
            let field = format!("  string {ADDED_FIELD} = 9999;\n");
            match (is_empty, is_message_start) {
                (true, _) => format!("{}{{\n{field}}}\n", line.trim_end_matches("{}")),
                (_, true) => format!("{line}\n{field}"),
                _ => format!("{line}\n"),
            }
        })
        .collect();
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("agent.proto"), later_protocol_text).unwrap();
    let files = protox::compile(["agent.proto"], [folder.path()]).unwrap();
    DescriptorPool::from_file_descriptor_set(files).unwrap()
}

/// Messages of a type with a value in every field, one for each choice of a `oneof`. Adds the names of the type, and of
/// the types of its fields, to `tested`.
fn complete_messages(
    descriptor: &MessageDescriptor,
    release: Release,
    tested: &mut BTreeSet<String>,
) -> Vec<Value> {
    tested.insert(descriptor.name().to_owned());
    let mut base = DynamicMessage::new(descriptor.clone());
    let is_added = |field: &FieldDescriptor| field.name() == ADDED_FIELD;
    let is_choice = |field: &FieldDescriptor| {
        let choice = field.containing_oneof();
        // An optional field is a `oneof` with one variant, which does not count.
        choice.is_some_and(|choice| !choice.is_synthetic())
    };
    for field in descriptor.fields().filter(|field| !is_choice(field)) {
        if is_added(&field) {
            if release == Release::Later {
                base.set_field(&field, Value::String("anything".into()));
            }
            continue;
        }
        let mut values = values_of_field(&field, release, tested);
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
    let mut messages = Vec::new();
    for field in descriptor.fields().filter(is_choice) {
        for value in values_of_field(&field, release, tested) {
            let mut message = base.clone();
            message.set_field(&field, value);
            messages.push(Value::Message(message));
        }
    }
    if messages.is_empty() {
        messages.push(Value::Message(base));
    }
    messages
}

/// Values for a field, or for the items of a list or map.
fn values_of_field(
    field: &FieldDescriptor,
    release: Release,
    tested: &mut BTreeSet<String>,
) -> Vec<Value> {
    match field.kind() {
        Kind::Message(entry) if field.is_map() => {
            values_of_field(&entry.map_entry_value_field(), release, tested)
        }
        Kind::Message(descriptor) => complete_messages(&descriptor, release, tested),
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
    tested: &mut BTreeSet<String>,
) {
    let name = std::any::type_name::<T>().rsplit("::").next().unwrap();
    let descriptor = pool
        .get_message_by_name(&format!("{PACKAGE}.{name}"))
        .unwrap();
    let later_messages = complete_messages(&descriptor, Release::Later, tested);
    let present_messages = complete_messages(&descriptor, Release::Present, tested);
    assert_eq!(later_messages.len(), present_messages.len());
    for (later, present) in later_messages.iter().zip(&present_messages) {
        let bytes = |value: &Value| value.as_message().unwrap().encode_to_vec();
        assert_ne!(bytes(later), bytes(present));
        // This release reads the message of a later one, without the added field.
        let decoded = T::decode(&*bytes(later)).unwrap();
        assert_eq!(decoded, T::decode(&*bytes(present)).unwrap());
        assert_ne!(decoded, T::default());
        // A later release reads the message of this one, with the added field empty.
        let read_by_later =
            DynamicMessage::decode(descriptor.clone(), &*decoded.encode_to_vec()).unwrap();
        assert_eq!(Value::Message(read_by_later), *present);
        // A later release reads its own message.
        let later_by_later = DynamicMessage::decode(descriptor.clone(), &*bytes(later)).unwrap();
        assert_eq!(Value::Message(later_by_later), *later);
    }
}

#[test]
fn every_message_of_agents_grows() {
    let pool = later_protocol();
    let mut tested = BTreeSet::new();
    assert_grows::<FromAgent>(&pool, &mut tested);
    assert_grows::<FromCell>(&pool, &mut tested);
    let declared = pool
        .all_messages()
        .filter(|message| !message.is_map_entry());
    let declared: BTreeSet<String> = declared.map(|message| message.name().to_owned()).collect();
    assert_eq!(tested, declared);
    for message in pool
        .all_messages()
        .filter(|message| !message.is_map_entry())
    {
        assert!(
            message.get_field_by_name(ADDED_FIELD).is_some(),
            "{} has no added field",
            message.name()
        );
    }
}
