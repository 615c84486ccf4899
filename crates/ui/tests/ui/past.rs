//! States of the past: the fleet and decisions after an earlier entry are what the live APIs said then.

use crate::common;

use std::collections::BTreeMap;
use std::sync::{Arc, mpsc};

use common::{ADMIN, Follower, Site, TENANT, host};
use placewright_conductor::super_conductor::{Aggregate, Command, Service};
use placewright_conductor::{ControlState, claims};
use placewright_control::{PastFailure, PastStates};
use placewright_engine::Options;
use placewright_placement::Timestamp;
use placewright_testing::site::{self, Stores, instance};
use serde_json::Value;

/// The conditions of hosts, as the page's rows have them.
const UP: u64 = 0;
const DISABLED: u64 = 1;
const FORCED_DOWN: u64 = 3;
const UNREPORTED: u64 = 4;

/// By UUID: the number of consumers of a host, and the VCPUs and the memory in use.
type Figures = BTreeMap<String, Vec<i64>>;

/// The numbers of the oldest and of the newest entry after which a state can still be shown.
async fn held(site: &Site) -> (u64, u64) {
    let answer = site.get("/ui/api/past", ADMIN).await;
    assert_eq!(answer.status, 200);
    let held = answer.json();
    for end in ["oldest", "newest"] {
        let at = held[end]["at"].as_str();
        assert!(at.is_none_or(|at| at.ends_with('Z')), "{held}");
    }
    let sequence = |end: &str| held[end]["sequence"].as_u64().unwrap();
    (sequence("oldest"), sequence("newest"))
}

/// The figures of all hosts after an entry.
async fn past_figures(site: &Site, sequence: u64) -> Figures {
    let path = format!("/ui/api/past/{sequence}/fleet");
    let answer = site.get(&path, ADMIN).await;
    let shown = answer.json();
    assert_eq!(answer.status, 200, "{shown}");
    assert_eq!(shown["sequence"], sequence);
    assert!(shown["at"].is_string(), "{shown}");
    let list = |name: &str| shown["fleet"][name].as_array().unwrap().clone();
    let uuids: BTreeMap<u64, String> = list("hosts")
        .iter()
        .map(|row| {
            (
                row[0].as_u64().unwrap(),
                row[1].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    let live = list("live");
    assert_eq!(live.len(), uuids.len());
    // A row has the slot, the condition and the age before the figures.
    let figures = live.iter().map(|row| {
        let numbers = row.as_array().unwrap()[3..].iter();
        let numbers = numbers.map(|number| number.as_i64().unwrap()).collect();
        (uuids[&row[0].as_u64().unwrap()].clone(), numbers)
    });
    figures.collect()
}

/// The figures that the stream has now.
fn live_figures(page: &Follower) -> Figures {
    // The condition and the age are before the figures.
    let hosts = page.hosts.values();
    let figures = hosts.map(|(uuid, numbers)| (uuid.clone(), numbers[2..].to_vec()));
    figures.collect()
}

#[tokio::test]
async fn the_fleet_as_of_then_is_what_the_stream_said_then() {
    let site = Site::start().await;
    for number in 1..=4 {
        site.add_host(number).await;
    }
    let mut page = Follower::start(&site, "").await;
    // After each claim: the number of the newest entry, and the figures that the stream has.
    let mut moments = Vec::new();
    for consumer in 1..=6_u32 {
        let (number, cpus) = (1 + consumer % 4, 1 + consumer % 3);
        assert_eq!(site.claim(number, consumer, cpus).await, 204);
        if consumer == 4 {
            let path = format!("/ui/api/placement/resource_providers/{}", host(4));
            // A request that is refused changes nothing.
            assert_eq!(site.send("DELETE", &path, ADMIN, "").await.status, 409);
            site.add_host(5).await;
        }
        let expected_hosts = if consumer < 4 { 4 } else { 5 };
        page.until(|page| {
            let claimed: i64 = page.hosts.values().filter_map(|(_, row)| row.get(2)).sum();
            page.hosts.len() == expected_hosts && claimed == i64::from(consumer)
        })
        .await;
        moments.push((held(&site).await.1, live_figures(&page)));
    }
    // Back and forth: for a later entry, the state that is kept is taken further; for an earlier one, another state is
    // made.
    for index in [0, 1, 5, 2, 2, 4, 3, 0] {
        let (sequence, figures) = &moments[index];
        assert_eq!(&past_figures(&site, *sequence).await, figures, "{sequence}");
    }
    assert_eq!(site.claim(1, 7, 1).await, 204);
    assert_eq!(past_figures(&site, moments[5].0).await, moments[5].1);
    let path = format!("/ui/api/past/{}/fleet", moments[0].0);
    let names = site.get(&path, ADMIN).await.json()["fleet"]["shapes"].to_string();
    assert!(names.contains(r#"["VCPU",24,8,2]"#), "{names}");
}

#[tokio::test]
async fn what_is_no_longer_held_and_what_is_not_there_yet_get_the_range() {
    let options = Options {
        snapshots_kept: 1,
        retain_entries: 0,
        ..Options::default()
    };
    let site = Site::start_with(options).await;
    for number in 1..=3 {
        site.add_host(number).await;
    }
    let (oldest, before) = held(&site).await;
    assert_eq!(oldest, 1);
    let figures = past_figures(&site, before).await;
    site.engine.snapshot().await.unwrap();
    assert_eq!(site.claim(1, 1, 4).await, 204);
    let (oldest, newest) = held(&site).await;
    assert_eq!((oldest, newest), (before, before + 1));
    for (sequence, status) in [(before - 1, 410), (1, 410), (0, 410), (newest + 1, 404)] {
        for part in ["fleet".to_owned(), format!("decisions/{}", host(1))] {
            let path = format!("/ui/api/past/{sequence}/{part}");
            let answer = site.get(&path, ADMIN).await;
            let text = String::from_utf8(answer.body).unwrap();
            assert_eq!(answer.status, status, "{path}: {text}");
            let range = format!("{oldest} to {newest}");
            assert!(text.contains(&range), "{text}");
        }
    }
    let after = past_figures(&site, newest).await;
    assert_eq!(after[&host(1)], [1, 4, 0]);
    // The oldest state is that of the snapshot. Its entry is no longer in the journal, so its time is not known.
    let path = format!("/ui/api/past/{before}/fleet");
    let shown = site.get(&path, ADMIN).await.json();
    assert_eq!(shown["at"], Value::Null);
    assert_eq!(figures[&host(1)], [0, 0, 0]);
    assert_eq!(
        shown["fleet"]["live"][0],
        serde_json::json!([0, UNREPORTED, 0, 0, 0, 0])
    );
}

#[tokio::test]
async fn only_operators_see_the_past_and_wrong_requests_are_refused() {
    let site = Site::start().await;
    site.add_host(1).await;
    let (_, newest) = held(&site).await;
    let fleet = format!("/ui/api/past/{newest}/fleet");
    let decisions = format!("/ui/api/past/{newest}/decisions/{}", host(1));
    for path in ["/ui/api/past", &fleet, &decisions] {
        let refused = site.get(path, TENANT).await;
        assert_eq!(refused.status, 403, "{path}");
        let text = String::from_utf8(refused.body).unwrap();
        assert!(!text.contains("host-1"), "{text}");
        assert_eq!(site.get(path, "").await.status, 401, "{path}");
        assert_eq!(site.send("POST", path, ADMIN, "").await.status, 405);
    }
    for (path, status) in [
        ("/ui/api/past/x/fleet", 400),
        ("/ui/api/past/-1/fleet", 400),
        ("/ui/api/past/99999999999999999999/fleet", 400),
        ("/ui/api/past/1/decisions/x", 400),
        ("/ui/api/past?after=1", 400),
        ("/ui/api/past/1", 404),
        ("/ui/api/past/1/fleet/2", 404),
        ("/ui/api/pastel", 404),
    ] {
        assert_eq!(site.get(path, ADMIN).await.status, status, "{path}");
    }
    // The UUID in the path is that of a host, and no server has it.
    assert_eq!(site.get(&decisions, ADMIN).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_state_is_rebuilt_at_a_time() {
    let site = Site::start().await;
    site.add_host(1).await;
    let (_, newest) = held(&site).await;
    let states = PastStates::new(site.engine.clone());
    let (has_begun, begun) = mpsc::channel();
    let (may_end, wait) = mpsc::channel::<()>();
    let first = tokio::spawn({
        let states = states.clone();
        async move {
            let hold = move |_: &ControlState| {
                has_begun.send(()).unwrap();
                wait.recv().unwrap();
            };
            states.read_at(newest, hold).await
        }
    });
    tokio::task::block_in_place(|| begun.recv()).unwrap();
    let second = states.clone().read_at(newest, |_| ()).await;
    assert!(matches!(second, Err(PastFailure::Busy)), "{second:?}");
    // Meanwhile the page can still ask which states are held.
    assert_eq!(states.held().await.unwrap().newest.sequence, newest);
    may_end.send(()).unwrap();
    first.await.unwrap().unwrap();
    states.read_at(newest, |_| ()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_ask_at_once_are_told_when_to_come_again() {
    let site = Site::start().await;
    for number in 1..=20 {
        site.add_host(number).await;
    }
    let (_, newest) = held(&site).await;
    let path = format!("/ui/api/past/{newest}/fleet");
    let answers = futures_util::future::join_all((0..40).map(|_| site.get(&path, ADMIN))).await;
    let mut shown = 0;
    for answer in answers {
        match answer.status {
            200 => shown += 1,
            503 => assert_eq!(answer.header("retry-after"), "1"),
            status => panic!("{status}"),
        }
    }
    assert!(shown > 0);
    assert_eq!(past_figures(&site, newest).await.len(), 20);
}

/// By UUID: the condition of each host after an entry, the name of its cell and its zone.
async fn past_conditions(site: &Site, sequence: u64) -> BTreeMap<String, (u64, String, Value)> {
    let shown = site
        .get(&format!("/ui/api/past/{sequence}/fleet"), ADMIN)
        .await;
    let fleet = &shown.json()["fleet"];
    let hosts = fleet["hosts"].as_array().unwrap().iter();
    let hosts = hosts.map(|row| {
        let live = fleet["live"].as_array().unwrap().iter();
        let condition = live.clone().find(|live| live[0] == row[0]).unwrap()[1].clone();
        // Rows have cells and zones as indexes into lists of the whole fleet.
        let value = |kind: &str, index: &Value| match index.as_u64() {
            Some(index) => fleet[kind][usize::try_from(index).unwrap()].clone(),
            None => Value::Null,
        };
        let cell = value("cells", &row[4]);
        let cell = cell[1].as_str().unwrap_or("none").to_owned();
        let uuid = row[1].as_str().unwrap().to_owned();
        (
            uuid,
            (condition.as_u64().unwrap(), cell, value("zones", &row[5])),
        )
    });
    hosts.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_host_of_the_past_has_the_condition_that_operators_had_set_and_the_zone_of_then() {
    // One cell with three hosts.
    let installation = site::Site::start(Stores::Memory, 1, 3, Arc::default()).await;
    let site = Site::on_engine(installation.conductor.engine().clone()).await;
    let at_rest = held(&site).await.1;
    let host = |number| site::host(0, number);
    let set_service = |number, disabled, forced_down| Command::SetService {
        host: host(number),
        service: Service {
            disabled,
            forced_down,
            ..Service::default()
        },
    };
    let mut aggregate = Aggregate {
        name: "east".into(),
        hosts: vec![host(2)],
        metadata: BTreeMap::from([("availability_zone".into(), "east".into())]),
        created_at: Timestamp(0),
        updated_at: None,
    };
    let zone = |row: &Aggregate| Command::SetAggregate {
        aggregate: uuid::Uuid::from_u128(1),
        row: Some(row.clone()),
    };
    let submit = async |command| {
        let submitted = installation.conductor.submit(command).await;
        submitted.unwrap().unwrap();
    };
    submit(set_service(0, true, false)).await;
    submit(set_service(1, true, true)).await;
    submit(zone(&aggregate)).await;
    let changed = held(&site).await.1;
    submit(set_service(0, false, false)).await;
    aggregate.metadata.clear();
    submit(zone(&aggregate)).await;
    // A provider that no cell has reported.
    let stray = format!("{{\"name\":\"stray\",\"uuid\":\"{}\"}}", common::host(9));
    let path = "/ui/api/placement/resource_providers";
    assert_eq!(site.send("POST", path, ADMIN, &stray).await.status, 201);
    let newest = held(&site).await.1;

    let expected = |conditions: [u64; 3], zone: Value| {
        let hosts = conditions.into_iter().zip(0..).map(|(condition, number)| {
            let zone = if number == 2 {
                zone.clone()
            } else {
                Value::Null
            };
            (
                host(number).to_string(),
                (condition, "cell0".to_owned(), zone),
            )
        });
        hosts.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(
        past_conditions(&site, at_rest).await,
        expected([UP, UP, UP], Value::Null)
    );
    assert_eq!(
        past_conditions(&site, changed).await,
        expected([DISABLED, FORCED_DOWN, UP], "east".into())
    );
    let mut last = expected([UP, FORCED_DOWN, UP], Value::Null);
    let row_of_stray = (UNREPORTED, "none".to_owned(), Value::Null);
    last.insert(common::host(9), row_of_stray);
    assert_eq!(past_conditions(&site, newest).await, last);
}

#[tokio::test(flavor = "multi_thread")]
async fn why_as_of_then_is_what_the_api_said_then() {
    // One cell with three hosts.
    let installation = site::Site::start(Stores::Memory, 1, 3, Arc::default()).await;
    let site = Site::on_engine(installation.conductor.engine().clone()).await;
    let before = held(&site).await.1;
    // Instance 0, with 2 CPUs.
    installation.create(0..1, 2).await;
    installation
        .until("it has a host", |control, _| {
            claims::host_of(&control.placement, instance(0)).is_some()
                && control.conductor.builds().is_empty()
        })
        .await;
    let now = format!("/ui/api/scheduler/v1/decisions/{}", instance(0));
    let then = |sequence: u64| format!("/ui/api/past/{sequence}/decisions/{}", instance(0));
    let shown = site.get(&now, ADMIN).await;
    assert_eq!(shown.status, 200);
    let shown = shown.json();
    assert_eq!(shown["decisions"].as_array().unwrap().len(), 1);
    let built = held(&site).await.1;
    let hosts = past_figures(&site, built).await;

    let delete = Command::Delete {
        instance: instance(0),
    };
    installation
        .conductor
        .submit(delete)
        .await
        .unwrap()
        .unwrap();
    installation
        .until("it is gone", |control, _| {
            !control.conductor.mappings().contains_key(&instance(0))
        })
        .await;
    assert_eq!(site.get(&now, ADMIN).await.status, 404);
    let past = site.get(&then(built), ADMIN).await;
    assert_eq!(past.status, 200);
    assert_eq!(past.json(), shown);
    assert_eq!(site.get(&then(before), ADMIN).await.status, 404);
    assert_eq!(hosts.values().map(|row| row[0]).sum::<i64>(), 1);
    let gone = past_figures(&site, held(&site).await.1).await;
    assert_eq!(gone.values().map(|row| row[0]).sum::<i64>(), 0);
}
