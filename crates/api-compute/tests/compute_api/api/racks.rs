//! An installation whose hosts are in racks of two and rooms of two racks.

use placewright_api_compute::ComputeOptions;
use placewright_control::submit_placement;
use placewright_placement::group::Level;
use placewright_placement::{Command, Timestamp};
use placewright_testing::site::host;
use serde_json::Value;
use uuid::Uuid;

use super::Api;

/// The number of hosts in a rack.
pub const RACK_HOSTS: u32 = 2;
/// The number of hosts in a room.
pub const ROOM_HOSTS: u32 = 4;
/// The first part of the UUIDs of racks.
const RACK_KIND: u128 = 1;
/// The first part of the UUIDs of rooms.
const ROOM_KIND: u128 = 2;

/// An installation with one cell and the flavor `1`.
pub async fn start(hosts: u32) -> Api {
    start_with(hosts, ComputeOptions::default()).await
}

pub async fn start_with(hosts: u32, options: ComputeOptions) -> Api {
    let api = Api::start_with(1, hosts, options).await;
    api.create_flavor("1", 1).await;
    let engine = api.site.conductor.engine();
    for number in 0..hosts {
        let command = Command::SetAggregates {
            provider: host(0, number).0,
            generation: None,
            aggregates: vec![
                aggregate(RACK_KIND, number / RACK_HOSTS),
                aggregate(ROOM_KIND, number / ROOM_HOSTS),
            ],
            at: Timestamp(1),
        };
        submit_placement(engine, command).await.unwrap().unwrap();
    }
    let (racks, rooms) = (hosts.div_ceil(RACK_HOSTS), hosts.div_ceil(ROOM_HOSTS));
    let racks_of_room = ROOM_HOSTS / RACK_HOSTS;
    let levels = Command::SetLevels {
        levels: vec![
            level("rack", RACK_KIND, racks, |number| {
                let room = number / racks_of_room;
                format!("room-{room}/{}", number % racks_of_room)
            }),
            level("room", ROOM_KIND, rooms, |number| format!("room-{number}")),
        ],
        distances: Vec::new(),
    };
    submit_placement(engine, levels).await.unwrap().unwrap();
    api
}

fn aggregate(kind: u128, number: u32) -> String {
    Uuid::from_u128((kind << 32) | u128::from(number)).to_string()
}

fn level(name: &str, kind: u128, count: u32, name_of: impl Fn(u32) -> String) -> Level {
    let numbers = || 0..count;
    Level {
        name: name.to_owned(),
        aggregates: numbers().map(|number| aggregate(kind, number)).collect(),
        names: numbers()
            .map(|number| (aggregate(kind, number), name_of(number)))
            .collect(),
    }
}

pub fn host_name(number: u32) -> String {
    format!("host-{}", host(0, number))
}

/// The number of the host that a server is on.
pub fn host_number(server: &Value) -> u32 {
    let name = server["OS-EXT-SRV-ATTR:host"].as_str().unwrap();
    (0..64).find(|number| host_name(*number) == name).unwrap()
}

pub async fn active_host_number(api: &Api, id: &str) -> u32 {
    host_number(&api.wait_for_status(id, "ACTIVE").await)
}
