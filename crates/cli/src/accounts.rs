//! `placewright user`, `project` and `role`: the accounts of an installation that has no Keystone.
//!
//! The commands sign in with a `clouds.yaml`, as every client does, and call the identity API.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use placewright_control::accounts::random_secret;
use placewright_roles::output;
use reqwest::Method;
use serde_json::{Value, json};

use crate::cloud::{CloudArgs, SignedIn};
use crate::credentials::read_password;

/// The cloud (an entry of `clouds.yaml`) whose user is the administrator. It is used if no cloud is named.
const ADMINISTRATOR: &str = "placewright";

/// Arguments of `placewright user`.
#[derive(Debug, Args)]
pub(crate) struct UserArgs {
    #[command(subcommand)]
    command: UserCommand,
    #[command(flatten)]
    cloud: CloudArgs,
}

#[derive(Debug, Subcommand)]
enum UserCommand {
    /// List all users
    List,
    /// Create a user. Without --password-file the password is random, and printed
    Create {
        /// The name of the user
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
        /// A project in which the user gets a role
        #[arg(long)]
        project: Option<String>,
        /// The role of the user in that project
        #[arg(long, default_value = "member", requires = "project")]
        role: String,
    },
    /// Give a user a new password, which ends all tokens of the user. Without --password-file it is random, and printed
    Password {
        /// The name of the user
        name: String,
        #[command(flatten)]
        password: PasswordArgs,
    },
    /// Let a user sign in again
    Enable {
        /// The name of the user
        name: String,
    },
    /// Keep a user from signing in, and end all tokens of the user
    Disable {
        /// The name of the user
        name: String,
    },
    /// Remove a user, with all roles and application credentials
    Delete {
        /// The name of the user
        name: String,
    },
}

/// Where a password comes from.
#[derive(Debug, Args)]
struct PasswordArgs {
    /// The file whose first line is the password; `-` is standard input
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

/// Arguments of `placewright project`.
#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    command: ProjectCommand,
    #[command(flatten)]
    cloud: CloudArgs,
}

#[derive(Debug, Subcommand)]
enum ProjectCommand {
    /// List all projects
    List,
    /// Create a project
    Create {
        /// The name of the project
        name: String,
        /// A text for people
        #[arg(long, default_value = "")]
        description: String,
    },
    /// Remove a project, with the roles of all users in it. Its servers stay
    Delete {
        /// The name of the project
        name: String,
    },
}

/// Arguments of `placewright role`.
#[derive(Debug, Args)]
pub(crate) struct RoleArgs {
    #[command(subcommand)]
    command: RoleCommand,
    #[command(flatten)]
    cloud: CloudArgs,
}

#[derive(Debug, Subcommand)]
enum RoleCommand {
    /// List all roles
    List,
    /// List who has which role, and where
    Assignments,
    /// Give a user a role in a project
    Add(RoleOfUser),
    /// Take a role in a project from a user
    Remove(RoleOfUser),
}

/// A role of a user in a project.
#[derive(Debug, Args)]
struct RoleOfUser {
    /// The name of the role
    role: String,
    /// The name of the user
    #[arg(long)]
    user: String,
    /// The name of the project
    #[arg(long)]
    project: String,
}

impl UserArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The file of clouds or a password cannot be read, or the identity service refuses.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        run(&self.cloud, async |api| match &self.command {
            UserCommand::List => list(api, "user", &["id", "name", "enabled"]).await,
            UserCommand::Create {
                name,
                password,
                project,
                role,
            } => {
                let (password, is_random) = password.choose()?;
                let body = json!({"user": {"name": name, "password": password}});
                let made = api.call(Method::POST, "/users", Some(&body)).await?;
                // The user exists now, so the password is said even if the role cannot be given.
                say_password(name, &password, is_random)?;
                let id = text(&made["user"]["id"]);
                match project {
                    Some(project) => set_role(api, Method::PUT, (id, project, role)).await,
                    None => Ok(()),
                }
            }
            UserCommand::Password { name, password } => {
                let (password, is_random) = password.choose()?;
                change_user(api, name, json!({"password": password})).await?;
                say_password(name, &password, is_random)
            }
            UserCommand::Enable { name } => change_user(api, name, json!({"enabled": true})).await,
            UserCommand::Disable { name } => {
                change_user(api, name, json!({"enabled": false})).await
            }
            UserCommand::Delete { name } => delete(api, "user", name).await,
        })
    }
}

impl ProjectArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The file of clouds cannot be read, or the identity service refuses.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        run(&self.cloud, async |api| match &self.command {
            ProjectCommand::List => {
                list(api, "project", &["id", "name", "enabled", "description"]).await
            }
            ProjectCommand::Create { name, description } => {
                let body = json!({"project": {"name": name, "description": description}});
                let made = api.call(Method::POST, "/projects", Some(&body)).await?;
                output::print(&format!("{}\n", text(&made["project"]["id"])))
            }
            ProjectCommand::Delete { name } => delete(api, "project", name).await,
        })
    }
}

impl RoleArgs {
    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The file of clouds cannot be read, or the identity service refuses.
    pub(crate) fn run(&self) -> anyhow::Result<()> {
        run(&self.cloud, async |api| match &self.command {
            RoleCommand::List => list(api, "role", &["id", "name"]).await,
            RoleCommand::Assignments => list_assignments(api).await,
            RoleCommand::Add(role) => {
                let user = find(api, "user", &role.user).await?;
                set_role(api, Method::PUT, (&user, &role.project, &role.role)).await
            }
            RoleCommand::Remove(role) => {
                let user = find(api, "user", &role.user).await?;
                set_role(api, Method::DELETE, (&user, &role.project, &role.role)).await
            }
        })
    }
}

/// Signs in, and does the work of a command with the signed-in user.
fn run(
    cloud: &CloudArgs,
    work: impl AsyncFnOnce(&SignedIn) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let api = cloud.sign_in(ADMINISTRATOR).await?;
        work(&api).await
    })
}

impl PasswordArgs {
    /// The password, and whether it is a random one.
    fn choose(&self) -> anyhow::Result<(String, bool)> {
        match &self.password_file {
            Some(file) => Ok((read_password(file)?, false)),
            None => match random_secret() {
                Ok(password) => Ok((password, true)),
                Err(error) => bail!(error),
            },
        }
    }
}

/// Prints a random password. One that the caller chose is not printed.
fn say_password(name: &str, password: &str, is_random: bool) -> anyhow::Result<()> {
    match is_random {
        true => output::print(&format!("the password of {name}: {password}\n")),
        false => Ok(()),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The id of the object of a kind, such as `user`, that has this name.
async fn find(api: &SignedIn, kind: &str, name: &str) -> anyhow::Result<String> {
    let all = api.call(Method::GET, &format!("/{kind}s"), None).await?;
    let rows = all[format!("{kind}s")].as_array();
    let mut rows = rows.into_iter().flatten();
    let row = rows.find(|row| row["name"] == name);
    let row = row.with_context(|| format!("there is no {kind} {name}"))?;
    Ok(text(&row["id"]).to_owned())
}

async fn delete(api: &SignedIn, kind: &str, name: &str) -> anyhow::Result<()> {
    let path = format!("/{kind}s/{}", find(api, kind, name).await?);
    api.call(Method::DELETE, &path, None).await?;
    Ok(())
}

async fn change_user(api: &SignedIn, name: &str, fields: Value) -> anyhow::Result<()> {
    let path = format!("/users/{}", find(api, "user", name).await?);
    let body = json!({"user": fields});
    api.call(Method::PATCH, &path, Some(&body)).await?;
    Ok(())
}

/// Gives a user a role in a project with PUT, or takes it away with DELETE. The user is given by its id, the project
/// and the role by their names.
async fn set_role(
    api: &SignedIn,
    method: Method,
    (user, project, role): (&str, &str, &str),
) -> anyhow::Result<()> {
    let project = find(api, "project", project).await?;
    let role = find(api, "role", role).await?;
    let path = format!("/projects/{project}/users/{user}/roles/{role}");
    api.call(method, &path, None).await?;
    Ok(())
}

/// Prints these fields of all objects of a kind, a line for each.
async fn list(api: &SignedIn, kind: &str, fields: &[&str]) -> anyhow::Result<()> {
    let all = api.call(Method::GET, &format!("/{kind}s"), None).await?;
    let rows = all[format!("{kind}s")].as_array();
    let rows = rows.into_iter().flatten().map(|row| {
        let cells = fields.iter().map(|field| match &row[*field] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        });
        cells.collect()
    });
    print_table(fields, rows.collect())
}

async fn list_assignments(api: &SignedIn) -> anyhow::Result<()> {
    let path = "/role_assignments?include_names";
    let all = api.call(Method::GET, path, None).await?;
    let rows = all["role_assignments"].as_array().into_iter().flatten();
    let rows = rows.map(|row| {
        let scope = &row["scope"];
        let scope = match (&scope["project"]["name"], &scope["domain"]["name"]) {
            (Value::String(name), _) => format!("project {name}"),
            (_, Value::String(name)) => format!("domain {name}"),
            _ => "system".to_owned(),
        };
        let (user, role) = (text(&row["user"]["name"]), text(&row["role"]["name"]));
        vec![user.to_owned(), role.to_owned(), scope]
    });
    print_table(&["user", "role", "in"], rows.collect())
}

/// Prints rows with their columns aligned.
fn print_table(heads: &[&str], rows: Vec<Vec<String>>) -> anyhow::Result<()> {
    let heads: Vec<String> = heads.iter().map(|head| (*head).to_owned()).collect();
    let width = |column: usize| {
        let cells = std::iter::once(&heads).chain(&rows);
        cells
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let mut table = String::new();
    for row in std::iter::once(&heads).chain(&rows) {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = width(column).unwrap_or(0);
            // Writing to a string cannot fail.
            let _ = write!(line, "{cell:<width$}  ");
        }
        table.push_str(line.trim_end());
        table.push('\n');
    }
    output::print(&table)
}
