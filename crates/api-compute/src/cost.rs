//! Which requests are costly: they may take milliseconds, and run on threads of their own.

use placewright_http::Cost;

/// Listings whose cost grows with the fleet or with a project's servers.
const LISTS: [&str; 18] = [
    "/servers",
    "/servers/detail",
    "/servers/{server_id}/os-instance-actions",
    "/servers/{server_id}/migrations",
    "/os-migrations",
    "/flavors",
    "/flavors/detail",
    "/os-server-groups",
    "/os-aggregates",
    "/os-availability-zone",
    "/os-availability-zone/detail",
    "/os-services",
    "/os-hypervisors",
    "/os-hypervisors/detail",
    "/os-hypervisors/statistics",
    "/os-hypervisors/{hypervisor_id}/search",
    "/os-hypervisors/{hypervisor_id}/servers",
    "/os-keypairs",
];

/// The end of `min_count` and `max_count`, the fields with which a body requests several servers.
const COUNT_FIELD_END: &[u8] = b"_count\"";

/// Whether a request is costly.
pub(crate) fn is_costly(path: &str, method: &str, body: &[u8]) -> bool {
    match method {
        "GET" => LISTS.contains(&path),
        _ => {
            Cost::OfBody.is_high(body.len())
                || path == "/servers"
                    && body
                        .windows(COUNT_FIELD_END.len())
                        .any(|window| window == COUNT_FIELD_END)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes::TABLE;

    #[test]
    fn the_lists_are_paths_of_the_table() {
        for path in LISTS {
            let route = TABLE.iter().find(|route| route.path == path);
            let has_get = |route: &crate::routes::Route| {
                let mut operations = route.operations.iter();
                operations.any(|operation| operation.method == "GET")
            };
            assert!(route.is_some_and(has_get), "{path}");
        }
    }

    #[test]
    fn many_servers_and_large_bodies_cost_much() {
        for (path, method, body, expected) in [
            ("/servers/detail", "GET", "", true),
            ("/servers/{server_id}", "GET", "", false),
            ("/servers", "POST", r#"{"server": {"name": "a"}}"#, false),
            ("/servers", "POST", r#"{"server": {"max_count": 9}}"#, true),
            ("/os-keypairs", "POST", r#"{"max_count": 9}"#, false),
            ("/os-keypairs", "POST", &" ".repeat(20_000), true),
        ] {
            assert_eq!(is_costly(path, method, body.as_bytes()), expected, "{path}");
        }
    }
}
