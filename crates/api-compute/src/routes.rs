//! The table of routes: the methods of each path, with their range of versions and their handlers.

use std::future::Future;
use std::pin::Pin;

use matchit::Router;
use placewright_http::{ApiResult, Reply};

use crate::admin::{
    aggregates, hypervisors, keypairs, limits, quotas, server_groups, services, zones,
};
use crate::discovery;
use crate::flavors::{access, catalog, extra_specs};
use crate::not_offered;
use crate::routed_request::RoutedRequest;
use crate::servers::{
    actions, attachments, create, delete, instance_actions, list, metadata, migrations, show, tags,
    update,
};
use crate::topology::levels;
use crate::version::{NEWEST, Version};

/// The future of a handler's response.
pub(crate) type HandlerFuture<'c> = Pin<Box<dyn Future<Output = ApiResult<Reply>> + Send + 'c>>;

/// One method of a path within a range of versions.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    /// The first and the last microversion that have the operation: the numbers after the dot.
    pub(crate) since: u16,
    pub(crate) until: u16,
    pub(crate) handler: for<'c> fn(&'c RoutedRequest<'c>) -> HandlerFuture<'c>,
}

impl Operation {
    /// Whether the operation's requests have a body.
    pub(crate) fn takes_body(&self) -> bool {
        matches!(self.method, "POST" | "PUT")
    }
}

/// A path and its methods.
pub(crate) struct Route {
    /// The path below `/v2.1`, with parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) operations: &'static [Operation],
}

impl Route {
    /// Whether bodies may be large, because they contain a server's specification with its user data.
    pub(crate) fn may_have_user_data(&self) -> bool {
        matches!(self.path, "/servers" | "/servers/{server_id}/action")
    }

    /// The names of the parameters in the path, in their order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> + use<> {
        let segments = self.path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The operation of a method in a version, if there is one, and whether the path has the method
    /// in any version.
    pub(crate) fn operation(
        &self,
        method: &str,
        version: Version,
    ) -> (Option<&'static Operation>, bool) {
        let mut operations = self
            .operations
            .iter()
            .filter(|operation| operation.method == method);
        let has_method = operations.clone().next().is_some();
        let operation =
            operations.find(|operation| (operation.since..=operation.until).contains(&version.0));
        (operation, has_method)
    }
}

/// Makes the table: each path with its methods, and the handler of each method. A method that only some versions have
/// also has their range, first and last included. A method without a range exists since version 0, which is before the
/// oldest.
macro_rules! table {
    ($( $path:literal { $( $method:ident $([ $since:literal ..= $until:expr ])? $handler:path; )+ } )+) => {
        &[ $( Route {
            path: $path,
            operations: &[ $( Operation {
                method: stringify!($method),
                since: 0 $( + $since )?,
                until: until!($( $until )?),
                handler: |request| Box::pin($handler(request)),
            } ),+ ],
        } ),+ ]
    };
}

/// The end of a range of versions, which a line of the table may leave out.
macro_rules! until {
    () => {
        NEWEST
    };
    ($until:expr) => {
        $until
    };
}

/// All routes of the compute API.
pub(crate) const TABLE: &[Route] = table! {
    "/" { GET discovery::show; }
    "/extensions" { GET limits::extensions; }
    "/extensions/{alias}" { GET limits::extension; }
    "/limits" { GET limits::show; }
    "/os-quota-sets/{project_id}" {
        GET quotas::show; PUT quotas::update; DELETE quotas::delete;
    }
    "/os-quota-sets/{project_id}/defaults" { GET quotas::defaults; }
    "/os-quota-sets/{project_id}/detail" { GET quotas::detail; }
    "/os-quota-class-sets/{quota_class}" { GET quotas::show_class; PUT quotas::update_class; }

    "/placewright/topology" { GET levels::list; }

    "/flavors" { GET catalog::list; POST catalog::create; }
    "/flavors/detail" { GET catalog::detail; }
    "/flavors/{flavor_id}" { GET catalog::show; PUT [55..=NEWEST] catalog::update; DELETE catalog::delete; }
    "/flavors/{flavor_id}/action" { POST access::action; }
    "/flavors/{flavor_id}/os-flavor-access" { GET access::list; }
    "/flavors/{flavor_id}/os-extra_specs" { GET extra_specs::list; POST extra_specs::create; }
    "/flavors/{flavor_id}/os-extra_specs/{key}" {
        GET extra_specs::show; PUT extra_specs::update; DELETE extra_specs::delete;
    }

    "/servers" { GET list::brief; POST create::create; }
    "/servers/detail" { GET list::detail; }
    "/servers/{server_id}" { GET show::show; PUT update::update; DELETE delete::delete; }
    "/servers/{server_id}/action" { POST actions::run_action; }
    "/servers/{server_id}/metadata" { GET metadata::list; POST metadata::add; PUT metadata::replace; }
    "/servers/{server_id}/metadata/{key}" {
        GET metadata::show; PUT metadata::set; DELETE metadata::delete;
    }
    "/servers/{server_id}/tags" {
        GET [26..=NEWEST] tags::list; PUT [26..=NEWEST] tags::replace; DELETE [26..=NEWEST] tags::clear;
    }
    "/servers/{server_id}/tags/{tag}" {
        GET [26..=NEWEST] tags::show; PUT [26..=NEWEST] tags::add; DELETE [26..=NEWEST] tags::delete;
    }
    "/servers/{server_id}/ips" { GET attachments::addresses; }
    "/servers/{server_id}/os-interface" { GET attachments::interfaces; POST not_offered::with_server; }
    "/servers/{server_id}/os-volume_attachments" { GET attachments::volumes; POST not_offered::with_server; }
    "/servers/{server_id}/os-security-groups" { GET attachments::security_groups; }
    "/servers/{server_id}/os-instance-actions" { GET instance_actions::list; }
    "/servers/{server_id}/os-instance-actions/{request_id}" { GET instance_actions::show; }
    "/servers/{server_id}/migrations" { GET [23..=NEWEST] migrations::list_of_server; }
    "/servers/{server_id}/migrations/{migration_id}" {
        GET [23..=NEWEST] migrations::show; DELETE [24..=NEWEST] migrations::abort;
    }
    "/servers/{server_id}/migrations/{migration_id}/action" { POST [22..=NEWEST] migrations::force; }
    "/os-migrations" { GET migrations::list; }

    "/os-server-groups" { GET server_groups::list; POST server_groups::create; }
    "/os-server-groups/{server_group_id}" { GET server_groups::show; DELETE server_groups::delete; }
    "/os-aggregates" { GET aggregates::list; POST aggregates::create; }
    "/os-aggregates/{aggregate_id}" {
        GET aggregates::show; PUT aggregates::update; DELETE aggregates::delete;
    }
    "/os-aggregates/{aggregate_id}/action" { POST aggregates::action; }
    "/os-availability-zone" { GET zones::list; }
    "/os-availability-zone/detail" { GET zones::detail; }
    "/os-services" { GET services::list; }
    "/os-services/{service_id}" { PUT services::update; DELETE services::delete; }
    "/os-hypervisors" { GET hypervisors::list; }
    "/os-hypervisors/detail" { GET hypervisors::detail; }
    "/os-hypervisors/statistics" { GET [1..=87] hypervisors::statistics; }
    "/os-hypervisors/{hypervisor_id}" { GET hypervisors::show; }
    "/os-hypervisors/{hypervisor_id}/search" { GET [1..=52] hypervisors::search; }
    "/os-hypervisors/{hypervisor_id}/servers" { GET [1..=52] hypervisors::servers; }
    "/os-hypervisors/{hypervisor_id}/uptime" { GET [1..=87] hypervisors::uptime; }
    "/os-keypairs" { GET keypairs::list; POST keypairs::create; }
    "/os-keypairs/{name}" { GET keypairs::show; DELETE keypairs::delete; }

    "/servers/{server_id}/remote-consoles" { POST [6..=NEWEST] not_offered::with_server; }
    "/servers/{server_id}/diagnostics" { GET not_offered::with_server; }
    "/servers/{server_id}/os-server-password" { GET not_offered::with_server; DELETE not_offered::with_server; }
    "/os-console-auth-tokens/{token}" { GET not_offered::without_server; }
    "/os-server-external-events" { POST not_offered::without_server; }
    "/os-simple-tenant-usage" { GET not_offered::without_server; }
    "/os-simple-tenant-usage/{project_id}" { GET not_offered::without_server; }
};

/// Compiles the table; no two of its paths conflict.
pub(crate) fn router() -> Router<usize> {
    let mut router = Router::new();
    for (index, route) in TABLE.iter().enumerate() {
        let inserted = router.insert(route.path, index);
        debug_assert!(inserted.is_ok(), "{}: {inserted:?}", route.path);
    }
    router
}

/// Whether the first segment of a path is a resource; otherwise it is the id of a project.
pub(crate) fn is_resource(segment: &str) -> bool {
    TABLE.iter().any(|route| {
        let mut segments = route.path.split('/').skip(1);
        segments.next() == Some(segment)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found() {
        let router = router();
        for (index, route) in TABLE.iter().enumerate() {
            let path = route.path.replace(['{', '}'], "x");
            assert_eq!(
                router.at(&path).map(|found| *found.value),
                Ok(index),
                "{path}"
            );
        }
        assert!(router.at("/servers/").is_err());
        assert!(is_resource("servers") && !is_resource("detail") && !is_resource("admin"));
    }

    #[test]
    fn versions_decide_which_operation_answers() {
        let flavor = TABLE
            .iter()
            .find(|route| route.path == "/flavors/{flavor_id}");
        let flavor = flavor.unwrap();
        assert!(matches!(
            flavor.operation("PUT", Version(55)),
            (Some(_), true)
        ));
        assert!(matches!(flavor.operation("PUT", Version(54)), (None, true)));
        assert!(matches!(
            flavor.operation("POST", Version(54)),
            (None, false)
        ));
    }
}
