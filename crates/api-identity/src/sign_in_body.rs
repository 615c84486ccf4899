//! The body with which a client signs in.

use placewright_auth::Secret;
use placewright_conductor::accounts::DEFAULT_DOMAIN;
use placewright_control::accounts::RequestedScope;
use placewright_http::ApiResult;
use serde_json::Value;

use crate::fields::Fields;

/// The name of the only domain.
pub(crate) const DEFAULT_DOMAIN_NAME: &str = "Default";

/// An object of the only domain, as a client names it.
#[derive(Debug, Clone)]
pub(crate) enum Named {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
    /// By a name in a domain that does not exist.
    Elsewhere,
}

/// How a client signs in.
#[derive(Debug)]
pub(crate) enum Credentials {
    /// As a user, with a password.
    Password { user: Named, password: Secret },
    /// With another token.
    Token(Secret),
    /// With an application credential: its id, or its name and its user.
    ApplicationCredential {
        id: Option<String>,
        name: Option<(String, Named)>,
        secret: Secret,
    },
}

/// The parsed body of a request for a token.
#[derive(Debug)]
pub(crate) struct SignInBody {
    pub(crate) credentials: Credentials,
    pub(crate) scope: RequestedScope,
}

impl SignInBody {
    /// Reads the body.
    ///
    /// # Errors
    ///
    /// 400 that names the wrong field.
    pub(crate) fn parse(body: &Value) -> ApiResult<Self> {
        let mut fields = Fields::new("", body)?;
        let mut auth = fields.required_object("auth")?;
        fields.finish()?;
        let mut identity = auth.required_object("identity")?;
        let credentials = credentials(&mut identity)?;
        let scope = scope(&mut auth)?;
        auth.finish()?;
        Ok(Self { credentials, scope })
    }
}

/// The supported methods of authentication. A request names exactly one of them, because they cannot be combined.
pub(crate) const METHODS: [&str; 3] = ["password", "token", "application_credential"];

fn credentials(identity: &mut Fields<'_>) -> ApiResult<Credentials> {
    // The limit may be any number above one, because several methods are refused below.
    let methods = identity.list("methods", 8)?.unwrap_or_default();
    let [method] = methods else {
        return Err(identity.error("methods", "it must name exactly one method"));
    };
    match method.as_str() {
        Some("password") => {
            let mut password = identity.required_object("password")?;
            let mut user = password.required_object("user")?;
            Ok(Credentials::Password {
                password: secret(&mut user, "password")?,
                user: named(&mut user)?,
            })
        }
        Some("token") => {
            let mut token = identity.required_object("token")?;
            Ok(Credentials::Token(secret(&mut token, "id")?))
        }
        Some("application_credential") => {
            let mut credential = identity.required_object("application_credential")?;
            let id = credential.text("id")?.map(str::to_owned);
            let name = match (&id, credential.text("name")?) {
                (None, Some(name)) => {
                    let mut user = credential.required_object("user")?;
                    Some((name.to_owned(), named(&mut user)?))
                }
                _ => None,
            };
            if id.is_none() && name.is_none() {
                return Err(credential.error("id", "it is missing, and so is the name"));
            }
            Ok(Credentials::ApplicationCredential {
                id,
                name,
                secret: secret(&mut credential, "secret")?,
            })
        }
        _ => Err(identity.error(
            "methods",
            "it must be password, token or application_credential",
        )),
    }
}

fn secret<'a>(fields: &mut Fields<'a>, key: &'a str) -> ApiResult<Secret> {
    let secret = fields.password(key)?;
    let secret = secret.ok_or_else(|| fields.error(key, "it is missing"))?;
    Ok(Secret::new(secret))
}

/// Reads an id, or a name with its domain.
fn named(fields: &mut Fields<'_>) -> ApiResult<Named> {
    if let Some(id) = fields.text("id")? {
        return Ok(Named::Id(id.to_owned()));
    }
    let name = fields.text("name")?;
    let name = name.ok_or_else(|| fields.error("name", "it is missing, and so is the id"))?;
    Ok(match is_default_domain(fields)? {
        true => Named::Name(name.to_owned()),
        false => Named::Elsewhere,
    })
}

/// Whether the field `domain` names the only domain. A client that leaves it out means that one.
fn is_default_domain(fields: &mut Fields<'_>) -> ApiResult<bool> {
    let Some(mut domain) = fields.object("domain")? else {
        return Ok(true);
    };
    let id = domain.text("id")?;
    let name = domain.text("name")?;
    let id_matches = id.is_none_or(|id| id == DEFAULT_DOMAIN);
    Ok(id_matches && name.is_none_or(|name| name == DEFAULT_DOMAIN_NAME))
}

fn scope(auth: &mut Fields<'_>) -> ApiResult<RequestedScope> {
    let Some(value) = auth.take("scope") else {
        return Ok(RequestedScope::Default);
    };
    if value == "unscoped" {
        return Ok(RequestedScope::Unscoped);
    }
    let mut scope = Fields::new("auth.scope", value)?;
    // Keystone's other scopes and fields, such as those for trusts, are refused below.
    let requested = if let Some(mut project) = scope.object("project")? {
        match named(&mut project)? {
            Named::Id(id) => RequestedScope::ProjectId(id),
            Named::Name(name) => RequestedScope::ProjectName(name),
            // No project has an empty id, so this scope is refused like that of any project that does not exist.
            Named::Elsewhere => RequestedScope::ProjectId(String::new()),
        }
    } else if let Some(mut domain) = scope.object("domain")? {
        let id = domain.text("id")?;
        let name = domain.text("name")?;
        match (id, name) {
            (Some(id), _) => RequestedScope::Domain(id.to_owned()),
            (None, Some(DEFAULT_DOMAIN_NAME)) => RequestedScope::Domain(DEFAULT_DOMAIN.to_owned()),
            // No domain has an empty id, so this scope is refused like that of any domain that does not exist.
            (None, Some(_)) => RequestedScope::Domain(String::new()),
            (None, None) => return Err(domain.error("id", "it is missing, and so is the name")),
        }
    } else if let Some(mut system) = scope.object("system")? {
        match system.boolean("all")? {
            Some(true) => RequestedScope::System,
            _ => return Err(system.error("all", "it must be true")),
        }
    } else {
        return Err(auth.error("scope", "it must name a project, a domain or the system"));
    };
    scope.finish()?;
    Ok(requested)
}
