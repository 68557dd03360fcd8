//! The user that servers run as: `nobody` where this process is root and the binary is not MongoDB's own.

use std::{
    fs,
    os::unix::{
        fs::{MetadataExt, PermissionsExt, chown},
        process::CommandExt,
    },
    path::Path,
    process::Command,
};

use crate::{Result, TestbedError};

const NAME: &str = "nobody";

/// An unprivileged user of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// `nobody` if this process runs as root; otherwise none, and servers run as this process does.
    pub(crate) fn unprivileged() -> Result<Option<Self>> {
        if !is_root() {
            return Ok(None);
        }
        let passwd = Path::new("/etc/passwd");
        let users = fs::read_to_string(passwd).map_err(|error| TestbedError::at(passwd, &error))?;
        let missing = || {
            TestbedError::new("there is no unprivileged user to run these servers as")
                .because(format!("{} has no user {NAME}", passwd.display()))
        };
        Self::in_passwd(&users).map(Some).ok_or_else(missing)
    }

    fn in_passwd(users: &str) -> Option<Self> {
        let mut fields = users
            .lines()
            .map(|line| line.split(':'))
            .find_map(|mut fields| (fields.next() == Some(NAME)).then_some(fields))?;
        let uid = fields.nth(1)?.parse().ok()?;
        let gid = fields.next()?.parse().ok()?;
        // An entry with the ids of root is not an unprivileged user.
        (uid != 0 && gid != 0).then_some(Self { uid, gid })
    }

    /// Makes the command run as this user, without supplementary groups, in `/`: the user may be unable to enter the
    /// current directory.
    pub(crate) fn run(self, command: &mut Command) {
        command.uid(self.uid).gid(self.gid).current_dir("/");
    }

    /// Makes the user the owner of a file or directory.
    pub(crate) fn own(self, path: &Path) -> Result<()> {
        chown(path, Some(self.uid), Some(self.gid)).map_err(|error| TestbedError::at(path, &error))
    }

    /// Returns true if the user may enter this directory and all above it.
    pub(crate) fn can_enter(self, dir: &Path) -> bool {
        let Ok(dir) = dir.canonicalize() else { return false };
        dir.ancestors().all(|dir| {
            fs::metadata(dir).is_ok_and(|dir| {
                let shift = match () {
                    () if dir.uid() == self.uid => 6,
                    () if dir.gid() == self.gid => 3,
                    () => 0,
                };
                dir.permissions().mode() >> shift & 1 == 1
            })
        })
    }
}

fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_is_parsed_from_passwd() {
        let users = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/false\n";
        assert_eq!(Account::in_passwd(users), Some(Account { uid: 65534, gid: 65533 }));
        assert_eq!(Account::in_passwd("root:x:0:0:root:/root:/bin/sh\n"), None);
        assert_eq!(Account::in_passwd("nobody:x:0:0::/:/bin/sh\n"), None);
        assert_eq!(Account::in_passwd("nobody:x\n"), None);
    }

    #[test]
    fn private_directory_cannot_be_entered_by_another_user() {
        let folder = crate::folders::folder("tests").unwrap();
        let folder = folder.join(format!("private-{}", std::process::id()));
        let below = folder.join("below");
        fs::create_dir_all(&below).unwrap();
        let stranger = Account { uid: 65_000, gid: 65_000 };
        let owner = fs::metadata(&folder).unwrap();
        let owner = Account { uid: owner.uid(), gid: owner.gid() };
        for (mode, enters) in [(0o700, false), (0o755, stranger.can_enter(Path::new("/")))] {
            fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).unwrap();
            // A directory above may be private, too.
            let above = stranger.can_enter(folder.parent().unwrap());
            assert_eq!(stranger.can_enter(&below), enters && above, "{mode:o}");
            assert!(owner.can_enter(&below));
        }
        assert!(!stranger.can_enter(&folder.join("nothing")));
        fs::remove_dir_all(folder).unwrap();
    }
}
