//! Stand-in for the auth crate until it is there.
use hyper::HeaderMap;
#[derive(Debug)]
pub struct Identity {
    user: String,
    project: String,
    roles: Vec<String>,
    scoped: bool,
}
impl Identity {
    pub fn project_id(&self) -> Option<&str> {
        Some(&self.project)
    }
    pub fn user_id(&self) -> Option<&str> {
        Some(&self.user)
    }
}
#[derive(Debug)]
pub enum AuthError {
    Unauthorized {
        challenge: Option<String>,
    },
    Unavailable {
        reason: String,
        retry_after: std::time::Duration,
    },
}
#[derive(Debug)]
pub struct Authenticator;
impl Authenticator {
    pub async fn authenticate(&self, headers: &HeaderMap) -> Result<Identity, AuthError> {
        let text = |name: &str| {
            headers
                .get(name)
                .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
        };
        let token = text("x-auth-token").ok_or(AuthError::Unauthorized { challenge: None })?;
        let (user, project) = token.split_once(':').unwrap_or((&token, ""));
        let project = if project.is_empty() { user } else { project };
        let roles = match text("x-roles") {
            Some(r) => r.split(',').map(|r| r.trim().to_lowercase()).collect(),
            None if user == "admin" => vec!["admin".to_owned()],
            None => vec![],
        };
        let some = |n| text(n).is_some_and(|t| !t.is_empty());
        Ok(Identity {
            user: user.to_owned(),
            project: text("x-project-id").unwrap_or(project.to_owned()),
            roles,
            scoped: some("openstack-system-scope") || some("x-domain-id"),
        })
    }
}
#[derive(Debug)]
pub struct Policy {
    pub profile: String,
}
impl Policy {
    pub fn allows(&self, rule: &str, identity: &Identity, project: Option<&str>) -> bool {
        let has = |r: &str| identity.roles.iter().any(|one| one == r);
        if self.profile == "open-policy" {
            return true;
        }
        if identity.scoped {
            return false;
        }
        if rule == "placement:reshaper:reshape" {
            return has("service") || (self.profile != "secure-rbac" && has("admin"));
        }
        if rule == "placement:usages" && has("reader") && project == Some(identity.project.as_str())
        {
            return true;
        }
        has("admin") || has("service")
    }
}
