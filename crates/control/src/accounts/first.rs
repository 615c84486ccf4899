//! The accounts with which an installation begins: an administrator, and a demo project with a user.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use placewright_conductor::accounts::{
    ADMIN_ROLE, AccountCommand, Assignment, AssignmentScope, DEFAULT_DOMAIN, FirstAccounts,
    HiddenText, Project, Role, User,
};
use placewright_placement::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use uuid::Uuid;

use super::handle::Accounts;

/// The hashes of the passwords of the first users.
#[derive(Clone, Debug)]
pub struct FirstPasswords {
    /// The hash of the password of the user `admin`.
    pub admin: HiddenText,
    /// The hash of the password of the user `demo`.
    pub demo: HiddenText,
}

/// A new id: 32 hexadecimal digits, as clients of OpenStack expect.
#[must_use]
pub fn new_id() -> String {
    Uuid::new_v4().simple().to_string()
}

/// A random number that names a token.
///
/// # Errors
///
/// The system has no random numbers.
pub fn random_audit_number() -> Result<[u8; 16], &'static str> {
    random()
}

/// A random password or secret of 43 characters. It does not begin with `-`, so that commands do not take it for an
/// option.
///
/// # Errors
///
/// The system has no random numbers.
pub fn random_secret() -> Result<String, &'static str> {
    loop {
        let secret = URL_SAFE_NO_PAD.encode(random::<32>()?);
        if !secret.starts_with('-') {
            return Ok(secret);
        }
    }
}

fn random<const N: usize>() -> Result<[u8; N], &'static str> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| "The system has no random numbers.")?;
    Ok(bytes)
}

impl Accounts {
    /// Whether the installation has no accounts yet.
    pub async fn are_missing(&self) -> bool {
        let is_empty = |state: &placewright_conductor::ControlState, _: &crate::Views| {
            state.conductor.users().is_empty()
        };
        self.control().read(is_empty).await
    }

    /// Creates the first accounts. False if another replica was faster: its passwords are the ones in force.
    ///
    /// # Errors
    ///
    /// The reason why the store does not take the accounts.
    pub async fn begin(&self, passwords: FirstPasswords) -> Result<bool, String> {
        let accounts = first_accounts(passwords, self.control().now());
        let begun = self.submit(AccountCommand::Begin(Box::new(accounts))).await;
        match begun {
            Ok(begun) => Ok(begun.is_ok()),
            Err(error) => Err(placewright_errors::chain(&error)),
        }
    }
}

/// The ids of the first roles.
struct RoleIds {
    admin: String,
    member: String,
}

/// The first roles. The role `admin` implies `manager`, that one `member`, and that one `reader`; `service` implies no
/// other role.
fn first_roles() -> (RoleIds, Vec<(String, Role)>) {
    let role = |name: &str, implied: Option<&String>| {
        let row = Role {
            name: name.to_owned(),
            description: None,
            implies: implied.into_iter().cloned().collect(),
        };
        (new_id(), row)
    };
    let reader = role("reader", None);
    let member = role("member", Some(&reader.0));
    let manager = role("manager", Some(&member.0));
    let admin = role(ADMIN_ROLE, Some(&manager.0));
    let ids = RoleIds {
        admin: admin.0.clone(),
        member: member.0.clone(),
    };
    let service = role("service", None);
    (ids, vec![admin, manager, member, reader, service])
}

fn first_accounts(passwords: FirstPasswords, now: Timestamp) -> FirstAccounts {
    let (role_ids, roles) = first_roles();
    let project = |name: &str, description: &str| {
        let row = Project {
            name: name.to_owned(),
            description: description.to_owned(),
            enabled: true,
            created_at: now,
            ..Project::default()
        };
        (new_id(), row)
    };
    let user = |name: &str, project: &str, password: HiddenText| {
        let row = User {
            name: name.to_owned(),
            enabled: true,
            default_project: Some(project.to_owned()),
            password,
            password_set_at: now,
            created_at: now,
            ..User::default()
        };
        (new_id(), row)
    };
    let admins = project("admin", "The project of administrators");
    let demos = project("demo", "A project to try things in");
    let services = project("service", "The project of services");
    let admin = user("admin", &admins.0, passwords.admin);
    let demo = user("demo", &demos.0, passwords.demo);
    let assign = |user: &(String, User), scope: AssignmentScope, role: &String| {
        let roles = [role.clone()].into();
        (user.0.clone(), scope, Assignment { roles })
    };
    let in_project = |project: &(String, Project)| AssignmentScope::Project(project.0.clone());
    let in_domain = AssignmentScope::Domain(DEFAULT_DOMAIN.to_owned());
    FirstAccounts {
        assignments: vec![
            assign(&admin, in_project(&admins), &role_ids.admin),
            assign(&admin, in_domain, &role_ids.admin),
            assign(&admin, AssignmentScope::System, &role_ids.admin),
            assign(&demo, in_project(&demos), &role_ids.member),
        ],
        users: vec![admin, demo],
        projects: vec![admins, demos, services],
        roles,
    }
}

#[cfg(test)]
mod tests {
    use super::random_secret;

    #[test]
    fn no_secret_looks_like_an_option() {
        // One in 64 would, if nothing prevented it.
        for _ in 0..2_000 {
            let secret = random_secret().expect("the system has random numbers");
            assert!(!secret.starts_with('-'));
        }
    }
}
