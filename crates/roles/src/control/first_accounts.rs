//! The first accounts of an installation, and the file with which their users sign in.

use std::io::{self, Write as _};
use std::path::PathBuf;

use anyhow::{Context as _, anyhow};
use placewright_auth::{Passwords, Secret};
use placewright_conductor::accounts::HiddenText;
use placewright_control::accounts::{Accounts, FirstPasswords, random_secret};
use placewright_journal::private;

/// The file with which clients find the installation: a `clouds.yaml`.
pub(super) struct CloudsFile {
    pub(super) path: PathBuf,
    /// The address at which clients sign in.
    pub(super) auth_url: String,
    pub(super) region: String,
}

/// Creates the first accounts with random passwords, which are written to the file.
///
/// The file is written before the accounts are created, so that a process that ends in between leaves no account whose
/// password nobody knows.
///
/// # Errors
///
/// The file or the store cannot be written.
pub(super) async fn begin(
    accounts: &Accounts,
    passwords: &Passwords,
    file: &CloudsFile,
) -> anyhow::Result<()> {
    let random = || random_secret().map_err(|error| anyhow!(error));
    let (admin, demo) = (Secret::new(random()?), Secret::new(random()?));
    let hashes = FirstPasswords {
        admin: HiddenText(passwords.hash(&admin).await?),
        demo: HiddenText(passwords.hash(&demo).await?),
    };
    let path = file.path.display();
    let written = file.write(&admin, &demo);
    written.with_context(|| format!("{path} cannot be written"))?;
    let begun = accounts.begin(hashes).await;
    let is_first =
        begun.map_err(|error| anyhow!("the first accounts cannot be created: {error}"))?;
    if is_first {
        tracing::info!(
            file = %path,
            "the first accounts were made: this file has their passwords"
        );
    } else {
        // Another replica was faster: its passwords are valid, and those in this file are not.
        std::fs::remove_file(&file.path)?;
    }
    Ok(())
}

impl CloudsFile {
    fn write(&self, admin: &Secret, demo: &Secret) -> io::Result<()> {
        let user = |cloud: &str, name: &str, password: &Secret| {
            format!(
                r#"  {cloud}:
    auth:
      auth_url: {}
      username: {name}
      password: {}
      project_name: {name}
      user_domain_name: Default
      project_domain_name: Default
    region_name: {}
    identity_api_version: 3
"#,
                self.auth_url,
                password.expose(),
                self.region
            )
        };
        let text = format!(
            "# How the openstack client and openstacksdk reach this installation. Whoever reads this file can do\n\
             # everything there.\n\
             clouds:\n{}{}",
            user("placewright", "admin", admin),
            user("demo", "demo", demo)
        );
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        self.replace_file(&text)
    }

    /// Replaces the file in one step, so that a crash or a full disk leaves the old file or the new one.
    fn replace_file(&self, text: &str) -> io::Result<()> {
        let mut new_path = self.path.clone().into_os_string();
        new_path.push(".new");
        let new_path = PathBuf::from(new_path);
        let mut file = private::create_file(&new_path)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(new_path, &self.path)
    }

    /// Replaces the addresses in the file, because a port may have changed. A missing file is not written again,
    /// because the store has only hashes of the passwords.
    ///
    /// # Errors
    ///
    /// The file cannot be read or written.
    pub(super) fn update_url(&self) -> io::Result<()> {
        let text = match std::fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        };
        let mut updated = String::with_capacity(text.len());
        for line in text.lines() {
            let indent = line.len() - line.trim_start().len();
            match line.trim_start().starts_with("auth_url:") {
                true => {
                    updated.push_str(&line[..indent]);
                    updated.push_str("auth_url: ");
                    updated.push_str(&self.auth_url);
                }
                false => updated.push_str(line),
            }
            updated.push('\n');
        }
        if updated != text {
            self.replace_file(&updated)?;
        }
        Ok(())
    }
}
