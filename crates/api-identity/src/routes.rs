//! The table of routes: the methods of each path, with their handlers.

use std::future::Future;
use std::pin::Pin;

use matchit::Router;
use placewright_http::{ApiResult, Reply};

use crate::call::Call;
use crate::{
    application_credentials, assignments, domains, projects, roles, services, tokens, users,
};

/// The future of a handler's response.
pub(crate) type HandlerFuture<'c> = Pin<Box<dyn Future<Output = ApiResult<Reply>> + Send + 'c>>;

/// One method of a path.
pub(crate) struct Operation {
    pub(crate) method: &'static str,
    pub(crate) handler: for<'c> fn(&'c Call<'c>) -> HandlerFuture<'c>,
}

impl Operation {
    /// Whether the operation's requests have a body.
    pub(crate) fn takes_body(&self) -> bool {
        matches!(self.method, "POST" | "PATCH")
    }
}

/// A path and its methods.
pub(crate) struct Route {
    /// The path below `/v3`, with parameters in braces.
    pub(crate) path: &'static str,
    pub(crate) operations: &'static [Operation],
    /// The methods for the header `Allow`, each with a comma and a space behind it.
    pub(crate) allow: &'static str,
}

impl Route {
    /// The names of the parameters in the path, in their order.
    pub(crate) fn parameters(&self) -> impl Iterator<Item = &'static str> + use<> {
        let segments = self.path.split('/');
        segments.filter_map(|segment| segment.strip_prefix('{')?.strip_suffix('}'))
    }

    /// The operation of a method. HEAD is answered as GET, if it is not in the table itself.
    pub(crate) fn operation(&self, method: &str) -> Option<&'static Operation> {
        let find = |method: &str| self.operations.iter().find(|one| one.method == method);
        find(method).or_else(|| (method == "HEAD").then(|| find("GET"))?)
    }
}

/// Makes the table: each path with its methods and their handlers.
macro_rules! table {
    ($( $path:literal { $( $method:ident $handler:path; )+ } )+) => {
        &[ $( Route {
            path: $path,
            operations: &[ $( Operation {
                method: stringify!($method),
                handler: |call| Box::pin($handler(call)),
            } ),+ ],
            allow: concat!($( stringify!($method), ", ", )+),
        } ),+ ]
    };
}

/// The path at which clients sign in, which needs no token.
pub(crate) const SIGN_IN: &str = "/auth/tokens";

/// All routes of the Identity API.
pub(crate) const TABLE: &[Route] = table! {
    "/auth/tokens" { POST tokens::sign_in; GET tokens::show; DELETE tokens::revoke; }
    "/auth/catalog" { GET tokens::catalog; }
    "/auth/projects" { GET tokens::projects; }
    "/auth/domains" { GET tokens::domains; }
    "/auth/system" { GET tokens::system; }

    "/users" { GET users::list; POST users::create; }
    "/users/{user_id}" { GET users::show; PATCH users::update; DELETE users::delete; }
    "/users/{user_id}/password" { POST users::change_password; }
    "/users/{user_id}/projects" { GET users::projects; }
    "/users/{user_id}/groups" { GET users::groups; }
    "/users/{user_id}/access_rules" { GET application_credentials::access_rules; }
    "/users/{user_id}/application_credentials" {
        GET application_credentials::list; POST application_credentials::create;
    }
    "/users/{user_id}/application_credentials/{credential_id}" {
        GET application_credentials::show; DELETE application_credentials::delete;
    }
    "/groups" { GET users::all_groups; }

    "/projects" { GET projects::list; POST projects::create; }
    "/projects/{project_id}" { GET projects::show; PATCH projects::update; DELETE projects::delete; }

    "/roles" { GET roles::list; POST roles::create; }
    "/roles/{role_id}" { GET roles::show; PATCH roles::update; DELETE roles::delete; }
    "/roles/{role_id}/implies" { GET roles::implied; }
    "/roles/{role_id}/implies/{implied_id}" {
        GET roles::show_implied; PUT roles::imply; DELETE roles::stop_implying;
    }
    "/role_inferences" { GET roles::inferences; }

    "/role_assignments" { GET assignments::list; }
    "/projects/{project_id}/users/{user_id}/roles" { GET assignments::roles; }
    "/projects/{project_id}/users/{user_id}/roles/{role_id}" {
        GET assignments::check; PUT assignments::grant; DELETE assignments::revoke;
    }
    "/domains/{domain_id}/users/{user_id}/roles" { GET assignments::roles; }
    "/domains/{domain_id}/users/{user_id}/roles/{role_id}" {
        GET assignments::check; PUT assignments::grant; DELETE assignments::revoke;
    }
    "/system/users/{user_id}/roles" { GET assignments::roles; }
    "/system/users/{user_id}/roles/{role_id}" {
        GET assignments::check; PUT assignments::grant; DELETE assignments::revoke;
    }

    "/domains" { GET domains::list; }
    "/domains/{domain_id}" { GET domains::show; }
    "/services" { GET services::list; }
    "/services/{service_id}" { GET services::show; }
    "/endpoints" { GET services::endpoints; }
    "/endpoints/{endpoint_id}" { GET services::endpoint; }
    "/regions" { GET services::regions; }
    "/regions/{region_id}" { GET services::region; }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_is_found_and_has_its_methods() {
        let router = router();
        for (index, route) in TABLE.iter().enumerate() {
            let path = route.path.replace(['{', '}'], "");
            assert_eq!(router.at(&path).map(|found| *found.value), Ok(index));
            for operation in route.operations {
                assert!(route.allow.contains(operation.method), "{}", route.path);
            }
        }
        let tokens = &TABLE[0];
        assert_eq!(tokens.operation("HEAD").map(|one| one.method), Some("GET"));
        assert!(tokens.operation("PUT").is_none());
    }
}
