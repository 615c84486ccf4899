//! Accounts: users, projects, roles, and the rows that belong to them; and the commands that write them.

use placewright_conductor::accounts::{
    AccountCommand, ApplicationCredential, Assignment, AssignmentScope, FirstAccounts, HiddenText,
    Project, RevokedToken, Role, TokenKey, User,
};

wrapped!(HiddenText);

row!(User {
    name,
    description,
    email,
    enabled,
    default_project,
    password,
    password_set_at,
    epoch,
    created_at
});
row!(Project {
    name,
    description,
    enabled,
    tags,
    created_at
});
row!(Role {
    name,
    description,
    implies
});
row!(Assignment { roles });
row!(ApplicationCredential {
    user,
    name,
    description,
    project,
    roles,
    secret,
    expires_at,
    unrestricted,
    created_at
});
row!(RevokedToken { expires_at });
row!(TokenKey { sealed, created_at });
row!(FirstAccounts {
    users,
    projects,
    roles,
    assignments
});

choice!(AssignmentScope {
    0 Project(id),
    1 Domain(id),
    2 System,
});

choice!(AccountCommand {
    0 Begin(accounts),
    1 SetUser { id, row },
    2 SetProject { id, row },
    3 SetRole { id, row },
    4 Assign { user, scope, role, is_granted },
    5 SetApplicationCredential { id, row },
    6 RevokeToken { user, audit_id, expires_at },
    7 AddTokenKey { number, key },
});
