//! Accounts: who may sign in to an installation that has no Keystone, and with which roles.
//!
//! The rows of control's tables, and the commands that write them. Hashes of passwords, ids and times come with the
//! commands; nothing here reads a clock or makes a random number. Tokens are not kept, except for the ids of revoked
//! ones. The keys that sign tokens are kept.

use std::collections::BTreeSet;
use std::fmt;

use placewright_placement::Timestamp;

/// The id of the only domain.
pub const DEFAULT_DOMAIN: &str = "default";

/// The name of the role that may manage everything. It cannot be removed, because nobody could bring it back.
pub const ADMIN_ROLE: &str = "admin";

/// The hash of a password or secret, or a sealed key. `Debug` does not show it, so that it is never in a log.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct HiddenText(pub String);

impl fmt::Debug for HiddenText {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "(none)" } else { "***" })
    }
}

/// A person or a program that signs in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name, unique in the installation.
    pub name: String,
    /// A text that the administrator wrote about the user.
    pub description: Option<String>,
    /// The email address. Nothing is ever sent to it.
    pub email: Option<String>,
    /// Whether the user may sign in. The tokens of a disabled user are invalid.
    pub enabled: bool,
    /// The project of tokens for which no scope was requested. The project may have been removed since.
    pub default_project: Option<String>,
    /// The hash of the password, in the form of PHC strings; empty for a user without one.
    pub password: HiddenText,
    /// When the password was set.
    pub password_set_at: Timestamp,
    /// A count that increases when all tokens of the user become invalid: with a new password, when the user is
    /// disabled, and when too many single tokens are revoked. A token contains the count of the time when it was
    /// issued. It has nothing to do with the epochs of leaders.
    pub epoch: u64,
    /// When the user was created.
    pub created_at: Timestamp,
}

/// A project, which owns servers and has quotas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// The name, unique in the installation.
    pub name: String,
    /// A text that the administrator wrote about the project.
    pub description: String,
    /// Whether tokens of the project are valid.
    pub enabled: bool,
    /// Labels by which projects can be listed.
    pub tags: BTreeSet<String>,
    /// When the project was created.
    pub created_at: Timestamp,
}

/// A role, which policies know by its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// The name, unique in the installation.
    pub name: String,
    /// A text that the administrator wrote about the role.
    pub description: Option<String>,
    /// The ids of further roles: whoever has this role has them too.
    pub implies: BTreeSet<String>,
}

/// The scope of an assignment: the project, the domain or the installation for which a user has the roles.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignmentScope {
    /// A project, by its id.
    Project(String),
    /// A domain, by its id.
    Domain(String),
    /// The whole installation.
    System,
}

/// The roles of one user in one scope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The ids of the roles. There is at least one.
    pub roles: BTreeSet<String>,
}

/// A credential with which a program signs in as its user, in one project.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApplicationCredential {
    /// The id of the user who created the credential.
    pub user: String,
    /// The name, unique among those of the user.
    pub name: String,
    /// A text that the user wrote about the credential.
    pub description: Option<String>,
    /// The id of the project.
    pub project: String,
    /// The ids of the roles. A role that was taken from the user does not count.
    pub roles: BTreeSet<String>,
    /// The hash of the secret, in the form of PHC strings.
    pub secret: HiddenText,
    /// When the credential becomes invalid; `None` for never.
    pub expires_at: Option<Timestamp>,
    /// Whether tokens that are issued for the credential may create and remove application credentials.
    pub unrestricted: bool,
    /// When the credential was created.
    pub created_at: Timestamp,
}

/// A token that was revoked before it expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevokedToken {
    /// When the token would have expired; from then on the row is of no use.
    pub expires_at: Timestamp,
}

/// A key that signs tokens, sealed with the installation's key. New tokens are signed with the newest key. The other
/// keys only verify the tokens that they have signed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TokenKey {
    /// The sealed key, in the format of the crate `placewright-secrets`.
    pub sealed: HiddenText,
    /// When the key was made.
    pub created_at: Timestamp,
}

/// The accounts of an installation that has none yet.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FirstAccounts {
    /// The users, by their ids.
    pub users: Vec<(String, User)>,
    /// The projects, by their ids.
    pub projects: Vec<(String, Project)>,
    /// The roles, by their ids.
    pub roles: Vec<(String, Role)>,
    /// The roles of each user in a scope.
    pub assignments: Vec<(String, AssignmentScope, Assignment)>,
}

/// A command about accounts.
#[derive(Clone, Debug, PartialEq)]
pub enum AccountCommand {
    /// Creates the first accounts; refused if there is a user.
    Begin(Box<FirstAccounts>),
    /// Creates, replaces or removes a user.
    SetUser {
        /// The id of the user.
        id: String,
        /// The new content; `None` removes the user with all that belongs to it.
        row: Option<Box<User>>,
    },
    /// Creates, replaces or removes a project.
    SetProject {
        /// The id of the project.
        id: String,
        /// The new content; `None` removes the project with its assignments and application credentials.
        row: Option<Box<Project>>,
    },
    /// Creates, replaces or removes a role.
    SetRole {
        /// The id of the role.
        id: String,
        /// The new content; `None` removes the role, also from assignments, application credentials and
        /// the roles that imply it.
        row: Option<Box<Role>>,
    },
    /// Gives a user a role, or takes it away.
    Assign {
        /// The id of the user.
        user: String,
        /// The scope in which the user has the role.
        scope: AssignmentScope,
        /// The id of the role.
        role: String,
        /// Whether the user has the role from now on.
        is_granted: bool,
    },
    /// Creates or removes an application credential.
    SetApplicationCredential {
        /// The id of the credential.
        id: String,
        /// The credential; `None` removes it.
        row: Option<Box<ApplicationCredential>>,
    },
    /// Revokes one token of a user.
    RevokeToken {
        /// The id of the token's user.
        user: String,
        /// The audit id of the token.
        audit_id: String,
        /// When the token expires.
        expires_at: Timestamp,
    },
    /// Adds a key, with which tokens are signed from now on. The oldest keys are removed if there are too many.
    AddTokenKey {
        /// The number of the key: one more than that of the newest key, or 0 if there is none.
        number: u32,
        /// The sealed key.
        key: TokenKey,
    },
}
