//! The rows of accounts, and the commands that write them.

use placewright_conductor::accounts::{
    AccountCommand, ApplicationCredential, Assignment, AssignmentScope, FirstAccounts, HiddenText,
    Project, RevokedToken, Role, TokenKey, User,
};
use placewright_conductor::control;
use placewright_conductor::super_conductor::Change;

use super::{AT, some};

pub(crate) fn user() -> User {
    User {
        name: "ada".into(),
        description: Some("who counts".into()),
        email: Some("ada@example.org".into()),
        enabled: true,
        default_project: Some("p".into()),
        password: HiddenText("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".into()),
        password_set_at: AT,
        epoch: 300,
        created_at: AT,
    }
}

pub(crate) fn project() -> Project {
    Project {
        name: "engines".into(),
        description: "analytical".into(),
        enabled: true,
        tags: ["a".to_owned(), "b".to_owned()].into(),
        created_at: AT,
    }
}

pub(crate) fn role() -> Role {
    Role {
        name: "member".into(),
        description: None,
        implies: ["r2".to_owned()].into(),
    }
}

pub(crate) fn assignment() -> Assignment {
    Assignment {
        roles: ["r1".to_owned(), "r2".to_owned()].into(),
    }
}

pub(crate) fn application_credential() -> ApplicationCredential {
    ApplicationCredential {
        user: "u".into(),
        name: "backup".into(),
        description: Some("nightly".into()),
        project: "p".into(),
        roles: ["r1".to_owned()].into(),
        secret: HiddenText("$argon2id$v=19$m=19456,t=2,p=1$c2FsdA$aGFzaA".into()),
        expires_at: Some(AT),
        unrestricted: true,
        created_at: AT,
    }
}

pub(crate) fn revoked_token() -> RevokedToken {
    RevokedToken { expires_at: AT }
}

pub(crate) fn token_key() -> TokenKey {
    TokenKey {
        sealed: HiddenText("0123456789abcdef.c2VhbGVk".into()),
        created_at: AT,
    }
}

pub(crate) fn scopes() -> [AssignmentScope; 3] {
    [
        AssignmentScope::Project("p".into()),
        AssignmentScope::Domain("default".into()),
        AssignmentScope::System,
    ]
}

pub(crate) fn first_accounts() -> FirstAccounts {
    FirstAccounts {
        users: vec![("u".into(), user())],
        projects: vec![("p".into(), project())],
        roles: vec![("r1".into(), role())],
        assignments: vec![("u".into(), AssignmentScope::System, assignment())],
    }
}

/// One of each change of accounts, and a removal.
pub(crate) fn account_changes() -> Vec<control::Change> {
    let mut changes = vec![
        Change::User("u".into(), some(user())),
        Change::User("gone".into(), None),
        Change::Project("p".into(), some(project())),
        Change::Role("r1".into(), some(role())),
        Change::ApplicationCredential("c".into(), some(application_credential())),
        Change::RevokedToken(("u".into(), "audit".into()), some(revoked_token())),
        Change::TokenKey(300, some(token_key())),
    ];
    let assignments =
        scopes().map(|scope| Change::Assignment(("u".into(), scope), some(assignment())));
    changes.extend(assignments);
    changes
        .into_iter()
        .map(control::Change::Conductor)
        .collect()
}

/// One of each command about accounts.
pub(crate) fn account_commands() -> Vec<AccountCommand> {
    vec![
        AccountCommand::Begin(Box::new(first_accounts())),
        AccountCommand::SetUser {
            id: "u".into(),
            row: some(user()),
        },
        AccountCommand::SetProject {
            id: "p".into(),
            row: some(project()),
        },
        AccountCommand::SetRole {
            id: "r1".into(),
            row: None,
        },
        AccountCommand::Assign {
            user: "u".into(),
            scope: AssignmentScope::Project("p".into()),
            role: "r1".into(),
            is_granted: true,
        },
        AccountCommand::SetApplicationCredential {
            id: "c".into(),
            row: some(application_credential()),
        },
        AccountCommand::RevokeToken {
            user: "u".into(),
            audit_id: "audit".into(),
            expires_at: AT,
        },
        AccountCommand::AddTokenKey {
            number: 300,
            key: token_key(),
        },
    ]
}
