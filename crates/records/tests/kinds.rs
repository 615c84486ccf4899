//! A field is added to each kind of row, and written and read both ways, as in `growth.rs`. The kinds
//! are read off the declarations, so none is forgotten: one that is missing here fails.

#![allow(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod bodies;
mod next;
mod values;

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::Path;

use next::{Next, assert_grows, fields};
use placewright_conductor::cell_conductor::{
    self as cell, GuestRef, JobKind, Next as After, Stage,
};
use placewright_conductor::message::Message;
use placewright_conductor::super_conductor::{self, BuildStage, MoveStage};
use placewright_conductor::{
    ClaimResponse, MoveKind, MoveSide, SharedRow, Spec, SpecBody, control,
};
use placewright_link::CellEvent;
use placewright_placement::change::AllocationFact;
use placewright_placement::group::{Distance, Level, Relation, RuleScope};
use placewright_placement::{self as placement, ClassId, Inventory};
use placewright_records::guests::{Entry, GuestRow, GuestStateName};
use placewright_records::{Form, Layout, Reader, Writer, control as form, server};
use placewright_types::host_state::{HostReport, HostUpdate, NumberedUpdate};
use placewright_types::server::{Networks, ServerFields};
use values::{AT, HOST, INSTANCE, OTHER};

/// What is no row: written as the value in it, or as bytes that grow as rows of their own.
const NO_ROWS: [&str; 10] = [
    "control::Change",
    "instances::Rules",
    "instances::SharedRow",
    "instances::SharedText",
    "packed::OwnRow",
    "packed::SpecOfTemplate",
    "placement::ConsumerUuid",
    "quotas::Resource",
    "quotas::Usage",
    "requests::ImageProperties",
];

/// The names of all declarations below `src`, each with its file.
fn declared() -> BTreeSet<String> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeSet::new();
    for folder in [src.join("forms"), src] {
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let module = path.file_stem().unwrap().to_str().unwrap().to_owned();
            for line in std::fs::read_to_string(&path).unwrap().lines() {
                let named = ["row!(", "choice!(", "impl Form for "]
                    .iter()
                    .find_map(|start| line.strip_prefix(start));
                if let Some(named) = named {
                    let name = named.split([' ', '{']).next().unwrap();
                    found.insert(format!("{module}::{name}"));
                }
            }
        }
    }
    found
}

/// The kinds of rows that grew.
#[derive(Default)]
struct Grown(BTreeSet<String>);

impl Grown {
    fn add<T: Form + Clone + PartialEq + Debug>(
        &mut self,
        module: &str,
        rows: impl IntoIterator<Item = T>,
    ) {
        let name = std::any::type_name::<T>();
        let name = name.rsplit("::").next().unwrap();
        let before = self.0.len();
        for row in rows {
            assert_grows(row);
            self.0.insert(format!("{module}::{name}"));
        }
        assert_eq!(self.0.len(), before + 1, "{module}::{name}");
    }
}

fn placement_facts(grown: &mut Grown) {
    let inventory = Inventory {
        total: 64,
        reserved: 2,
        min_unit: 1,
        max_unit: 32,
        step_size: 1,
        allocation_ratio: 4.0,
    };
    let fact = AllocationFact {
        provider: HOST.0,
        class: ClassId(3),
        amount: 4,
    };
    let level = Level {
        name: "rack".into(),
        aggregates: vec!["a".into()],
    };
    let distance = Distance {
        from: "a".into(),
        to: "b".into(),
        distance: 300,
    };
    let scopes = [RuleScope::Host, RuleScope::Level("rack".into())];
    let relations = [
        Relation::Same,
        Relation::FewerThan(2),
        Relation::Spread(300),
    ];
    let changed = placement::Change::InventorySet {
        provider: HOST.0,
        class: ClassId(0),
        inventory,
        at: AT,
    };
    grown.add("placement", [changed]);
    grown.add("placement", [inventory]);
    grown.add("placement", [fact]);
    grown.add("placement", [level]);
    grown.add("placement", [distance]);
    grown.add("placement", [values::rule()]);
    grown.add("placement", scopes);
    grown.add("placement", relations);
}

/// Adds the row of each change of the given kinds.
macro_rules! rows_of {
    ($grown:ident, $module:literal, $changes:expr, $change:path: $($kind:ident),*) => {$({
        use $change as Kind;
        let rows = $changes.into_iter().filter_map(|change| match change {
            Kind::$kind(_, row) => row.map(|row| *row),
            _ => None,
        });
        $grown.add($module, rows.collect::<Vec<_>>());
    })*};
}

fn rows_of_control(grown: &mut Grown) {
    let all = || [values::instances_of_control(), values::tables_of_control()].concat();
    rows_of!(grown, "of_control", all(), super_conductor::Change:
        Cell, Host, Build, Mapping, Buried, Deletion, Migration, Rebuild, Flavor, Keypair,
        Group, Aggregate, Labels, Service);
    grown.add("of_control", [values::quotas::counted_move()]);
    grown.add("of_control", [bodies::topology()]);
    grown.add("of_control", all());
    let locks = all().into_iter().filter_map(|change| match change {
        super_conductor::Change::Labels(_, Some(labels)) => labels.lock,
        _ => None,
    });
    grown.add("of_control", locks.collect::<Vec<_>>());
    grown.add(
        "of_control",
        [
            BuildStage::Waiting,
            BuildStage::Placed {
                selection: values::candidate(),
                alternates: vec![values::candidate()],
            },
        ],
    );
    grown.add(
        "of_control",
        [
            MoveStage::Requested,
            MoveStage::Reserved,
            MoveStage::Placed {
                selection: values::candidate(),
                alternates: Vec::new(),
                claim: 3,
            },
            MoveStage::InCell,
            MoveStage::Cancelling,
        ],
    );
}

fn rows_of_cells(grown: &mut Grown) {
    rows_of!(grown, "of_cell", values::of_cell(), cell::Change: Meta, Host, Instance, Job);
    grown.add("of_cell", values::of_cell());
    let targets = values::of_cell()
        .into_iter()
        .filter_map(|change| match change {
            cell::Change::Job(_, Some(job)) => job.target,
            _ => None,
        });
    grown.add("of_cell", targets.collect::<Vec<_>>());
    let guest = GuestRef {
        host: HOST,
        number: 7,
    };
    grown.add("of_cell", [guest]);
    let after = [
        After::Release,
        After::Settle(MoveSide::Target),
        After::Return,
    ];
    grown.add("of_cell", after);
    grown.add(
        "of_cell",
        [
            Stage::Reserved,
            Stage::Step(cell::Step::Leave),
            Stage::Swap,
            Stage::Verify,
            Stage::AwaitDestroyed(After::Return),
            Stage::AwaitClaim(After::Release),
        ],
    );
    grown.add(
        "of_cell",
        [
            JobKind::Build,
            JobKind::Move(MoveKind::Unshelve),
            JobKind::Shelve,
            JobKind::Rebuild,
            JobKind::Delete,
        ],
    );
}

fn instances(grown: &mut Grown) {
    let actions = values::actions();
    grown.add("instances", [bodies::spec_of_today()]);
    grown.add("instances", values::spec().rules.to_vec());
    grown.add("instances", [values::candidate()]);
    grown.add("instances", values::amounts());
    grown.add("instances", [values::fault()]);
    grown.add(
        "instances",
        actions.iter().flat_map(|action| action.tries.clone()),
    );
    grown.add("instances", actions.clone());
    grown.add::<ClaimResponse>("instances", values::answers());
}

fn messages(grown: &mut Grown) {
    let messages = || {
        values::envelopes()
            .into_iter()
            .map(|envelope| envelope.message)
    };
    grown.add("messages", values::envelopes());
    grown.add("messages", messages());
    let creates = messages().filter_map(|message| match message {
        Message::Create(create) => Some(*create),
        _ => None,
    });
    grown.add("messages", creates.collect::<Vec<_>>());
    let orders = messages().filter_map(|message| match message {
        Message::Move(order) => Some(*order),
        _ => None,
    });
    grown.add("messages", orders.collect::<Vec<_>>());
    grown.add("messages", values::asks());
    grown.add("messages", values::asks().into_iter().map(|ask| ask.want));
    grown.add("messages", values::replies());
    grown.add("messages", values::acts());
    grown.add("messages", values::news());
    let views = || {
        values::news().into_iter().filter_map(|event| match event {
            CellEvent::Instance { view, .. } => view.map(|view| *view),
            _ => None,
        })
    };
    grown.add("messages", views().collect::<Vec<_>>());
    grown.add(
        "messages",
        views().filter_map(|view| view.job).collect::<Vec<_>>(),
    );
    let hosts = values::news().into_iter().filter_map(|event| match event {
        CellEvent::Host { view, .. } => view,
        _ => None,
    });
    grown.add("messages", hosts.collect::<Vec<_>>());
}

fn hosts(grown: &mut Grown) {
    let numbered = values::news().into_iter().filter_map(|event| match event {
        CellEvent::State { update, .. } => Some(*update),
        _ => None,
    });
    let numbered: Vec<NumberedUpdate> = numbered.collect();
    let updates: Vec<HostUpdate> = numbered.iter().map(|one| one.update.clone()).collect();
    let report = updates.iter().find_map(|update| match update {
        HostUpdate::Full(report) => Some(HostReport::clone(report)),
        _ => None,
    });
    let report = report.unwrap();
    grown.add("hosts", numbered);
    grown.add("hosts", updates);
    grown.add("hosts", [report.facts.clone()]);
    grown.add("hosts", [report.facts.names.clone()]);
    grown.add("hosts", [report.facts.platform.clone()]);
    grown.add("hosts", [report.load]);
    grown.add("hosts", report.metrics.clone());
    grown.add("hosts", report.instances.clone());
    grown.add("hosts", [report]);
}

fn guests(grown: &mut Grown) {
    let guest = GuestRow {
        state: GuestStateName::Running,
        amounts: values::amounts(),
        group: Some(OTHER),
        image_properties: vec![("a".into(), "b".into())],
    };
    let key = (INSTANCE, 7);
    let put = Entry::Put(HOST, key, guest.clone());
    grown.add("guests", [guest]);
    grown.add(
        "guests",
        [put, Entry::Erase(HOST, key), Entry::Session(300)],
    );
}

fn requests(grown: &mut Grown) {
    let request = bodies::request();
    grown.add("requests", [request.flavor.clone()]);
    grown.add("requests", request.image.clone());
    grown.add("requests", request.requested_destination.clone());
    grown.add("requests", request.instance_group.clone());
    grown.add("requests", request.topology_rules.clone());
    grown.add("requests", request.requested_resources.clone());
    grown.add("requests", [request.request_level_params.clone()]);
    grown.add("requests", request.pci_requests.clone());
    grown.add("requests", request.pci_requests[0].spec.clone());
    let network = bodies::network();
    let asked = network.resource_request.clone().unwrap();
    grown.add("requests", [network]);
    grown.add("requests", asked.request_groups.clone().unwrap());
    grown.add("requests", [asked]);
    grown.add("requests", [bodies::profile()]);
    grown.add("requests", bodies::profile().groups);
    grown.add("requests", [request]);
}

fn quotas(grown: &mut Grown) {
    grown.add("quotas", [values::quotas::limits()]);
    grown.add("quotas", values::quotas::scopes());
    grown.add("quotas", values::quotas::usage().amounts().cloned());
}

fn servers(grown: &mut Grown) {
    let body = bodies::body();
    grown.add(
        "servers",
        [ServerFields {
            secrets_mark: Some("mark".into()),
            ..body.server
        }],
    );
    grown.add("servers", [body.own]);
    grown.add("servers", bodies::plain_values());
    for networks in bodies::networks() {
        if let Networks::List(list) = networks {
            grown.add("servers", list);
        }
    }
    grown.add("servers", bodies::networks());
}

#[test]
fn every_kind_of_row_grows() {
    let mut grown = Grown::default();
    placement_facts(&mut grown);
    rows_of_control(&mut grown);
    rows_of_cells(&mut grown);
    instances(&mut grown);
    messages(&mut grown);
    hosts(&mut grown);
    guests(&mut grown);
    requests(&mut grown);
    servers(&mut grown);
    quotas(&mut grown);
    grown.0.extend(NO_ROWS.map(str::to_owned));
    let missing: Vec<_> = declared().difference(&grown.0).cloned().collect();
    let unknown: Vec<_> = grown.0.difference(&declared()).cloned().collect();
    assert!(missing.is_empty(), "does it grow? {missing:?}");
    assert!(unknown.is_empty(), "not declared: {unknown:?}");
}

/// The bytes of a row with a field that a later release added.
fn longer(bytes: &[u8]) -> Vec<u8> {
    let mut from = Reader::new(bytes, Layout::Growing);
    let today = from.bytes().unwrap();
    let mut out = Writer::new(Vec::new(), Layout::Growing);
    out.bytes(&[today, b"of a later release"].concat());
    out.into_bytes()
}

#[test]
fn both_parts_of_a_body_grow() {
    let SpecBody::Row(row) = server::write(&bodies::body()) else {
        panic!("a body that is written is a row");
    };
    let common = longer(row.common());
    let later = SharedRow::parted(common.into(), longer(row.own()));
    let later = SpecBody::Row(later);
    assert_eq!(server::read(&later).unwrap(), bodies::body());
    // Who does not need the field passes it on.
    let spec = Spec {
        body: later,
        ..bodies::spec()
    };
    assert_eq!(next::read::<Spec>(&next::written(&spec)), spec);
}

#[test]
fn a_spec_of_a_template_grows() {
    let spec = bodies::spec();
    let SpecBody::Row(row) = &spec.body else {
        panic!("a body that is written is a row");
    };
    let mut out = Writer::new(vec![form::RECORD_VERSION, 3], Layout::Growing);
    out.number(1);
    spec.write(&mut out);
    out.number(2);
    out.row(|out| {
        INSTANCE.write(out);
        out.number(0);
        spec.name.write(out);
        String::new().write(out);
        out.bytes(row.own());
        // The defaults of what was added after it.
        out.raw(&[0, 0]);
        out.raw(&fields(&Next::new(bodies::topology())));
    });
    let read = form::decode(&out.into_bytes()).unwrap();
    let change = super_conductor::Change::Spec(INSTANCE, Some(Box::new(spec)));
    assert_eq!(read, [control::Change::Conductor(change)]);
}
