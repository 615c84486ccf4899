//! Control's decisions about users, projects, roles and the keys that sign tokens.

use placewright_conductor::ControlState;
use placewright_conductor::accounts::{
    AccountCommand, ApplicationCredential, AssignmentScope, FirstAccounts, HiddenText, Project,
    Role, TokenKey, User,
};
use placewright_conductor::control::{Command, Refusal as ControlRefusal, Undo};
use placewright_conductor::super_conductor::{self, Refusal};
use placewright_placement::Timestamp;

/// Whether a user has a role from now on.
const GRANT: bool = true;
const REVOKE: bool = false;

#[derive(Default)]
struct Control {
    state: ControlState,
    at: i64,
}

impl Control {
    /// Decides and applies a command. The changes are then undone and applied again, which must lead to the same state.
    fn submit(&mut self, command: AccountCommand) -> Result<(), Refusal> {
        let command = Command::Conductor {
            command: super_conductor::Command::Accounts(command),
            at: Timestamp(self.at),
        };
        let mut changes = Vec::new();
        let decided = self.state.decide(&command, &mut changes);
        decided.map_err(|refusal| match refusal {
            ControlRefusal::Conductor(refusal) => refusal,
            ControlRefusal::Placement(refusal) => panic!("{refusal}"),
        })?;
        let before = self.state.conductor.clone();
        let undos: Vec<Undo> = changes
            .iter()
            .map(|change| self.state.apply(change))
            .collect();
        let after = self.state.conductor.clone();
        for undo in undos.into_iter().rev() {
            self.state.undo(undo);
        }
        assert_eq!(self.state.conductor, before);
        for change in &changes {
            drop(self.state.apply(change));
        }
        assert_eq!(self.state.conductor, after);
        Ok(())
    }

    fn state(&self) -> &super_conductor::State {
        &self.state.conductor
    }

    fn assign(&mut self, user: &str, role: &str, is_granted: bool) -> Result<(), Refusal> {
        self.submit(AccountCommand::Assign {
            user: user.into(),
            scope: scope(),
            role: role.into(),
            is_granted,
        })
    }

    fn roles_of(&self, user: &str) -> Vec<String> {
        self.state().roles_in(user, &scope()).into_iter().collect()
    }
}

fn scope() -> AssignmentScope {
    AssignmentScope::Project("p".into())
}

fn user(name: &str) -> User {
    User {
        name: name.into(),
        enabled: true,
        password: HiddenText("hash".into()),
        ..User::default()
    }
}

fn set_user(id: &str, row: User) -> AccountCommand {
    AccountCommand::SetUser {
        id: id.into(),
        row: Some(Box::new(row)),
    }
}

fn role(name: &str, implies: &[&str]) -> Role {
    Role {
        name: name.into(),
        description: None,
        implies: implies.iter().map(|id| (*id).to_owned()).collect(),
    }
}

fn set_role(id: &str, row: Option<Role>) -> AccountCommand {
    AccountCommand::SetRole {
        id: id.into(),
        row: row.map(Box::new),
    }
}

fn credential(user: &str, name: &str) -> ApplicationCredential {
    ApplicationCredential {
        user: user.into(),
        name: name.into(),
        project: "p".into(),
        roles: ["member".to_owned()].into(),
        ..ApplicationCredential::default()
    }
}

fn set_credential(id: &str, row: Option<ApplicationCredential>) -> AccountCommand {
    AccountCommand::SetApplicationCredential {
        id: id.into(),
        row: row.map(Box::new),
    }
}

/// A user `u` with the role `member` in the project `p`; the role implies `reader`.
fn control() -> Control {
    let mut control = Control::default();
    let project = Project {
        name: "blue".into(),
        enabled: true,
        ..Project::default()
    };
    let accounts = FirstAccounts {
        users: vec![("u".into(), user("ada"))],
        projects: vec![("p".into(), project)],
        roles: vec![
            ("admin".into(), role("admin", &["member"])),
            ("member".into(), role("member", &["reader"])),
            ("reader".into(), role("reader", &[])),
        ],
        assignments: Vec::new(),
    };
    let begin = AccountCommand::Begin(Box::new(accounts));
    control.submit(begin.clone()).unwrap();
    let refusal = control.submit(begin).unwrap_err();
    assert!(matches!(refusal, Refusal::Exists { what: "user", .. }));
    control.assign("u", "member", GRANT).unwrap();
    control
}

#[test]
fn names_are_unique_and_a_row_may_keep_its_own() {
    let mut control = control();
    let refusal = control.submit(set_user("v", user("ada"))).unwrap_err();
    assert!(matches!(refusal, Refusal::Exists { what: "user", .. }));
    control.submit(set_user("v", user("bob"))).unwrap();
    control.submit(set_user("u", user("ada"))).unwrap();
    let refusal = control.submit(set_user("v", user("ada"))).unwrap_err();
    assert!(matches!(refusal, Refusal::Exists { .. }));
    let refusal = control
        .submit(set_role("x", Some(role("member", &[]))))
        .unwrap_err();
    assert!(matches!(refusal, Refusal::Exists { what: "role", .. }));
}

#[test]
fn a_new_password_and_a_disabled_user_end_all_tokens_and_no_other_change_of_the_row_does() {
    let mut control = control();
    let epoch = |control: &Control| control.state().users()["u"].epoch;
    let begun = epoch(&control);
    let mut row = user("eve");
    control.submit(set_user("u", row.clone())).unwrap();
    assert_eq!(epoch(&control), begun);
    row.password = HiddenText("another hash".into());
    control.submit(set_user("u", row.clone())).unwrap();
    assert_eq!(epoch(&control), begun + 1);
    row.enabled = false;
    control.submit(set_user("u", row.clone())).unwrap();
    assert_eq!(epoch(&control), begun + 2);
    row.enabled = true;
    // A caller cannot decrease the epoch.
    row.epoch = 0;
    control.submit(set_user("u", row)).unwrap();
    assert_eq!(epoch(&control), begun + 2);
}

#[test]
fn roles_imply_others_also_in_a_circle() {
    let mut control = control();
    assert_eq!(control.roles_of("u"), ["member", "reader"]);
    control
        .submit(set_role("reader", Some(role("reader", &["member"]))))
        .unwrap();
    assert_eq!(control.roles_of("u"), ["member", "reader"]);
    let unknown = set_role("reader", Some(role("reader", &["nobody"])));
    assert!(matches!(
        control.submit(unknown),
        Err(Refusal::NotFound { what: "role", .. })
    ));
    control.assign("u", "member", REVOKE).unwrap();
    assert_eq!(control.roles_of("u"), [] as [&str; 0]);
    assert!(control.state().assignments().is_empty());
    let refusal = control.assign("u", "member", REVOKE).unwrap_err();
    assert!(matches!(refusal, Refusal::NotFound { what: "role", .. }));
}

#[test]
fn what_belongs_to_a_removed_user_project_or_role_goes_with_it() {
    let mut control = control();
    control
        .submit(set_credential("c", Some(credential("u", "robot"))))
        .unwrap();
    control.submit(set_role("member", None)).unwrap();
    assert_eq!(control.roles_of("u"), [] as [&str; 0]);
    assert!(control.state().roles()["admin"].implies.is_empty());
    assert!(
        control.state().application_credentials()["c"]
            .roles
            .is_empty()
    );
    control.assign("u", "reader", GRANT).unwrap();
    let project = |row: Option<Project>| AccountCommand::SetProject {
        id: "p".into(),
        row: row.map(Box::new),
    };
    control.submit(project(None)).unwrap();
    assert!(control.state().assignments().is_empty());
    assert!(control.state().application_credentials().is_empty());
    assert!(matches!(
        control.assign("u", "reader", GRANT),
        Err(Refusal::NotFound { .. })
    ));

    let mut control = self::control();
    control
        .submit(set_credential("c", Some(credential("u", "robot"))))
        .unwrap();
    control
        .submit(AccountCommand::RevokeToken {
            user: "u".into(),
            audit_id: "a".into(),
            expires_at: Timestamp(10),
        })
        .unwrap();
    let remove = AccountCommand::SetUser {
        id: "u".into(),
        row: None,
    };
    control.submit(remove).unwrap();
    let state = control.state();
    assert!(state.users().is_empty() && state.assignments().is_empty());
    assert!(state.application_credentials().is_empty() && state.revoked_tokens().is_empty());
}

#[test]
fn the_role_of_administrators_stays() {
    let mut control = control();
    let refusal = control.submit(set_role("admin", None)).unwrap_err();
    assert!(matches!(refusal, Refusal::InUse { what: "role", .. }));
    let renamed = set_role("admin", Some(role("boss", &[])));
    assert!(matches!(
        control.submit(renamed),
        Err(Refusal::InUse { .. })
    ));
    control
        .submit(set_role("admin", Some(role("admin", &[]))))
        .unwrap();
}

#[test]
fn application_credentials_have_names_and_a_limit_for_each_user() {
    let mut control = control();
    control
        .submit(set_credential("c", Some(credential("u", "robot"))))
        .unwrap();
    for (id, name) in [("c", "other"), ("d", "robot")] {
        let refused = control.submit(set_credential(id, Some(credential("u", name))));
        assert!(matches!(refused, Err(Refusal::Exists { .. })), "{id}");
    }
    let nobody = set_credential("d", Some(credential("nobody", "robot")));
    assert!(matches!(
        control.submit(nobody),
        Err(Refusal::NotFound { what: "user", .. })
    ));
    for number in 1..100 {
        let row = credential("u", &format!("robot {number}"));
        control
            .submit(set_credential(&format!("c{number}"), Some(row)))
            .unwrap();
    }
    let one_more = set_credential("more", Some(credential("u", "more")));
    assert!(matches!(
        control.submit(one_more.clone()),
        Err(Refusal::TooMany { most: 100, .. })
    ));
    control.submit(set_credential("c", None)).unwrap();
    control.submit(one_more).unwrap();
}

#[test]
fn revoked_tokens_are_forgotten_when_they_have_expired_and_are_bounded() {
    let mut control = control();
    let revoke = |control: &mut Control, audit_id: String, expires_at: i64| {
        control.submit(AccountCommand::RevokeToken {
            user: "u".into(),
            audit_id,
            expires_at: Timestamp(expires_at),
        })
    };
    revoke(&mut control, "old".into(), 10).unwrap();
    control.at = 11;
    for number in 0..1000 {
        revoke(&mut control, format!("{number:04}"), 20).unwrap();
    }
    let revoked = |control: &Control| control.state().revoked_tokens().len();
    assert_eq!(revoked(&control), 1000);
    let epoch = control.state().users()["u"].epoch;
    revoke(&mut control, "more".into(), 20).unwrap();
    assert_eq!(revoked(&control), 1000);
    // The token is revoked all the same, with all others of the user.
    assert_eq!(control.state().users()["u"].epoch, epoch + 1);
    let refusal = control.submit(AccountCommand::RevokeToken {
        user: "nobody".into(),
        audit_id: "a".into(),
        expires_at: Timestamp(20),
    });
    assert!(matches!(refusal, Err(Refusal::NotFound { .. })));
}

#[test]
fn keys_of_tokens_have_ascending_numbers_and_the_newest_three_stay() {
    let mut control = control();
    let add = |control: &mut Control, number: u32| {
        control.submit(AccountCommand::AddTokenKey {
            number,
            key: TokenKey::default(),
        })
    };
    assert_eq!(add(&mut control, 1), Err(Refusal::Changed));
    for number in 0..5 {
        add(&mut control, number).unwrap();
        // Another replica that makes a key at the same time is refused.
        assert_eq!(add(&mut control, number), Err(Refusal::Changed));
    }
    let keys: Vec<u32> = control.state().token_keys().keys().copied().collect();
    assert_eq!(keys, [2, 3, 4]);
}

#[test]
fn hashes_and_keys_are_not_shown() {
    let shown = format!("{:?}", user("ada"));
    assert!(!shown.contains("hash") && shown.contains("***"), "{shown}");
}
