//! Users, projects, roles, and the rows that belong to them.

use super::{DecisionContext, Outcome, Refusal, exists, in_use, not_found};
use crate::accounts::{
    ADMIN_ROLE, AccountCommand, ApplicationCredential, Assignment, AssignmentScope, DEFAULT_DOMAIN,
    FirstAccounts, Project, RevokedToken, Role, TokenKey, User,
};
use crate::super_conductor::state::Change;
use placewright_placement::Timestamp;

/// How many keys for tokens there are at most: the newest, and those whose tokens may not have expired yet.
const TOKEN_KEYS_MAX: usize = 3;
/// How many single tokens of a user may be revoked at a time. With more, all tokens that the user has are revoked.
const REVOKED_TOKENS_MAX: usize = 1000;
/// How many application credentials a user may have.
const APPLICATION_CREDENTIALS_MAX: usize = 100;

impl DecisionContext<'_> {
    /// Decides the commands about accounts.
    pub(super) fn decide_accounts(&mut self, command: &AccountCommand) -> Result<Outcome, Refusal> {
        match command {
            AccountCommand::Begin(accounts) => self.begin_accounts(accounts),
            AccountCommand::SetUser { id, row } => self.set_user(id, row.as_deref()),
            AccountCommand::SetProject { id, row } => self.set_project(id, row.as_deref()),
            AccountCommand::SetRole { id, row } => self.set_role(id, row.as_deref()),
            AccountCommand::Assign {
                user,
                scope,
                role,
                is_granted,
            } => self.assign(user, scope, role, *is_granted),
            AccountCommand::SetApplicationCredential { id, row } => {
                self.set_application_credential(id, row.as_deref())
            }
            AccountCommand::RevokeToken {
                user,
                audit_id,
                expires_at,
            } => self.revoke_token(user, audit_id, *expires_at),
            AccountCommand::AddTokenKey { number, key } => self.add_token_key(*number, key),
        }?;
        Ok(Outcome::Done)
    }

    /// Writes the first accounts of an installation; refused once there is any user.
    fn begin_accounts(&mut self, accounts: &FirstAccounts) -> Result<(), Refusal> {
        if let Some(user) = self.state.users.values().next() {
            return Err(exists("user", &user.name));
        }
        for (id, row) in &accounts.projects {
            self.record(Change::Project(id.clone(), Some(Box::new(row.clone()))));
        }
        for (id, row) in &accounts.roles {
            self.record(Change::Role(id.clone(), Some(Box::new(row.clone()))));
        }
        for (id, row) in &accounts.users {
            self.record(Change::User(id.clone(), Some(Box::new(row.clone()))));
        }
        for (user, scope, row) in &accounts.assignments {
            let key = (user.clone(), scope.clone());
            self.record(Change::Assignment(key, Some(Box::new(row.clone()))));
        }
        Ok(())
    }

    fn set_user(&mut self, id: &str, row: Option<&User>) -> Result<(), Refusal> {
        let known = self.state.users.get(id);
        let Some(row) = row else {
            known.ok_or_else(|| not_found("user", &id))?;
            self.remove_all_of_user(id);
            self.record(Change::User(id.to_owned(), None));
            return Ok(());
        };
        let mut others = self.state.users.iter();
        if others.any(|(other, user)| other != id && user.name == row.name) {
            return Err(exists("user", &row.name));
        }
        let mut row = row.clone();
        if let Some(known) = known {
            let is_new_password = known.password != row.password;
            let is_disabled = known.enabled && !row.enabled;
            let ends_tokens = is_new_password || is_disabled;
            // A token is valid only for the epoch of its user in which it was issued.
            row.epoch = known.epoch.saturating_add(u64::from(ends_tokens));
        }
        self.record(Change::User(id.to_owned(), Some(Box::new(row))));
        Ok(())
    }

    fn remove_all_of_user(&mut self, user: &str) {
        let scopes: Vec<AssignmentScope> = self
            .state
            .assignments_of(user)
            .map(|(scope, _)| scope.clone())
            .collect();
        for scope in scopes {
            self.record(Change::Assignment((user.to_owned(), scope), None));
        }
        let credentials: Vec<String> = self
            .state
            .application_credentials_of(user)
            .map(|(id, _)| id.to_owned())
            .collect();
        for id in credentials {
            self.record(Change::ApplicationCredential(id, None));
        }
        let revoked: Vec<String> = self
            .state
            .revoked_tokens_of(user)
            .map(|(audit_id, _)| audit_id.to_owned())
            .collect();
        for audit_id in revoked {
            self.record(Change::RevokedToken((user.to_owned(), audit_id), None));
        }
    }

    fn set_project(&mut self, id: &str, row: Option<&Project>) -> Result<(), Refusal> {
        if let Some(row) = row {
            let mut others = self.state.projects.iter();
            if others.any(|(other, project)| other != id && project.name == row.name) {
                return Err(exists("project", &row.name));
            }
        } else {
            if !self.state.projects.contains_key(id) {
                return Err(not_found("project", &id));
            }
            let scope = AssignmentScope::Project(id.to_owned());
            let state = self.state;
            let keys = state.assignments.keys();
            for key in keys.filter(|(_, of)| *of == scope) {
                self.record(Change::Assignment(key.clone(), None));
            }
            let credentials = state.application_credentials.iter();
            for (credential, _) in credentials.filter(|(_, row)| row.project == id) {
                self.record(Change::ApplicationCredential(credential.clone(), None));
            }
        }
        let row = row.cloned().map(Box::new);
        self.record(Change::Project(id.to_owned(), row));
        Ok(())
    }

    fn set_role(&mut self, id: &str, row: Option<&Role>) -> Result<(), Refusal> {
        if let Some(row) = row {
            let mut others = self.state.roles.iter();
            if others.any(|(other, role)| other != id && role.name == row.name) {
                return Err(exists("role", &row.name));
            }
            if let Some(unknown) = row
                .implies
                .iter()
                .find(|implied| !self.state.roles.contains_key(*implied))
            {
                return Err(not_found("role", unknown));
            }
        }
        let known = self.state.roles.get(id);
        let is_admin = known.is_some_and(|role| role.name == ADMIN_ROLE);
        if is_admin && row.is_none_or(|row| row.name != ADMIN_ROLE) {
            return Err(in_use("role", &ADMIN_ROLE));
        }
        if row.is_none() {
            known.ok_or_else(|| not_found("role", &id))?;
            self.take_role_from_all(id);
        }
        self.record(Change::Role(id.to_owned(), row.cloned().map(Box::new)));
        Ok(())
    }

    fn take_role_from_all(&mut self, role: &str) {
        let state = self.state;
        for (key, row) in state.assignments.iter() {
            if row.roles.contains(role) {
                let mut row = row.clone();
                row.roles.remove(role);
                self.write_assignment(key.clone(), row);
            }
        }
        for (id, row) in state.application_credentials.iter() {
            if row.roles.contains(role) {
                let mut row = row.clone();
                row.roles.remove(role);
                self.record(Change::ApplicationCredential(
                    id.clone(),
                    Some(Box::new(row)),
                ));
            }
        }
        for (id, row) in state.roles.iter() {
            if id != role && row.implies.contains(role) {
                let mut row = row.clone();
                row.implies.remove(role);
                self.record(Change::Role(id.clone(), Some(Box::new(row))));
            }
        }
    }

    fn assign(
        &mut self,
        user: &str,
        scope: &AssignmentScope,
        role: &str,
        is_granted: bool,
    ) -> Result<(), Refusal> {
        if !self.state.users.contains_key(user) {
            return Err(not_found("user", &user));
        }
        if !self.state.roles.contains_key(role) {
            return Err(not_found("role", &role));
        }
        match scope {
            AssignmentScope::Project(id) if !self.state.projects.contains_key(id) => {
                return Err(not_found("project", id));
            }
            AssignmentScope::Domain(id) if id != DEFAULT_DOMAIN => {
                return Err(not_found("domain", id));
            }
            _ => {}
        }
        let key = (user.to_owned(), scope.clone());
        let mut row = self
            .state
            .assignments
            .get(&key)
            .cloned()
            .unwrap_or_default();
        let is_changed = if is_granted {
            row.roles.insert(role.to_owned())
        } else {
            row.roles.remove(role)
        };
        if !is_changed && !is_granted {
            return Err(not_found("role", &role));
        }
        if is_changed {
            self.write_assignment(key, row);
        }
        Ok(())
    }

    /// Writes an assignment, or removes it if it has no roles.
    fn write_assignment(&mut self, key: (String, AssignmentScope), row: Assignment) {
        let row = (!row.roles.is_empty()).then(|| Box::new(row));
        self.record(Change::Assignment(key, row));
    }

    fn set_application_credential(
        &mut self,
        id: &str,
        row: Option<&ApplicationCredential>,
    ) -> Result<(), Refusal> {
        let is_known = self.state.application_credentials.contains_key(id);
        match row {
            None if !is_known => return Err(not_found("application credential", &id)),
            Some(_) if is_known => return Err(exists("application credential", &id)),
            None => {}
            Some(row) => {
                if !self.state.users.contains_key(&row.user) {
                    return Err(not_found("user", &row.user));
                }
                let mut of_user = self.state.application_credentials_of(&row.user);
                if of_user.any(|(_, other)| other.name == row.name) {
                    return Err(exists("application credential", &row.name));
                }
                let count = self.state.application_credentials_of(&row.user).count();
                if count >= APPLICATION_CREDENTIALS_MAX {
                    return Err(Refusal::TooMany {
                        what: "application credentials",
                        most: APPLICATION_CREDENTIALS_MAX,
                    });
                }
            }
        }
        let row = row.cloned().map(Box::new);
        self.record(Change::ApplicationCredential(id.to_owned(), row));
        Ok(())
    }

    /// Revokes a token, and removes the rows of the user's revoked tokens that have expired meanwhile.
    fn revoke_token(
        &mut self,
        user: &str,
        audit_id: &str,
        expires_at: Timestamp,
    ) -> Result<(), Refusal> {
        let state = self.state;
        let row = state
            .users
            .get(user)
            .ok_or_else(|| not_found("user", &user))?;
        let mut count = 0;
        for (revoked, row) in state.revoked_tokens_of(user) {
            if row.expires_at < self.at {
                self.record(Change::RevokedToken(
                    (user.to_owned(), revoked.to_owned()),
                    None,
                ));
            } else {
                count += 1;
            }
        }
        if count >= REVOKED_TOKENS_MAX {
            // Tokens of an earlier epoch of their user are invalid, so this one needs no row.
            let mut row = row.clone();
            row.epoch = row.epoch.saturating_add(1);
            self.record(Change::User(user.to_owned(), Some(Box::new(row))));
            return Ok(());
        }
        let key = (user.to_owned(), audit_id.to_owned());
        self.record(Change::RevokedToken(
            key,
            Some(Box::new(RevokedToken { expires_at })),
        ));
        Ok(())
    }

    /// Adds a token key, and removes the oldest keys beyond [`TOKEN_KEYS_MAX`]. Refused if the number is not the next
    /// one, because another replica added a key first.
    fn add_token_key(&mut self, number: u32, key: &TokenKey) -> Result<(), Refusal> {
        let newest = self.state.token_keys.keys().next_back();
        if newest.map_or(0, |newest| newest.saturating_add(1)) != number {
            return Err(Refusal::Changed);
        }
        let present = self.state.token_keys.len();
        let dropped = present.saturating_add(1).saturating_sub(TOKEN_KEYS_MAX);
        for oldest in self.state.token_keys.keys().take(dropped) {
            self.record(Change::TokenKey(*oldest, None));
        }
        self.record(Change::TokenKey(number, Some(Box::new(key.clone()))));
        Ok(())
    }
}
