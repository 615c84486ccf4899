//! `placewright top` in a pseudo terminal.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// The control sequences that switch a terminal to its alternate screen, and back.
pub(crate) const OTHER_SCREEN: &str = "\x1b[?1049h";
const OWN_SCREEN: &str = "\x1b[?25h\x1b[?1049l";

/// A pseudo terminal with `placewright top` in it.
pub(crate) struct Terminal {
    pub(crate) child: Child,
    keyboard: File,
    pub(crate) screen: File,
    pub(crate) shown: Arc<Mutex<String>>,
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Terminal {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&master).unwrap();
        unlockpt(&master).unwrap();
        let path = ptsname(&master, Vec::new()).unwrap();
        let open = || {
            File::options()
                .read(true)
                .write(true)
                .open(path.to_str().unwrap())
                .unwrap()
        };
        let screen = open();
        let size = Winsize {
            ws_row: 40,
            ws_col: 120,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&screen, size).unwrap();
        // In a session of its own, so that Ctrl-C in this terminal reaches the program.
        let child = Command::new("setsid")
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_placewright"))
            .arg("top")
            .args(arguments)
            .env_remove("PLACEWRIGHT_CONFIG")
            .stdin(OwnedFd::from(open()))
            .stdout(OwnedFd::from(open()))
            .stderr(OwnedFd::from(open()))
            .spawn()
            .unwrap();
        let keyboard = File::from(master);
        let mut reader = keyboard.try_clone().unwrap();
        let shown = Arc::new(Mutex::new(String::new()));
        let text = Arc::clone(&shown);
        thread::spawn(move || {
            let mut piece = [0; 65_536];
            while let Ok(length @ 1..) = reader.read(&mut piece) {
                text.lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&piece[..length]));
            }
        });
        Self {
            child,
            keyboard,
            screen,
            shown,
        }
    }

    pub(crate) fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The text of the last whole screen, without control sequences.
    fn last_screen(&self) -> String {
        let shown = self.shown.lock().unwrap();
        // The last one may be incomplete; the one before is whole.
        let mut screens = shown.rsplit("\x1b[H");
        let last = screens.next().unwrap();
        let whole = match last.contains("q quit") {
            true => last,
            false => screens.next().unwrap_or_default(),
        };
        let mut text = String::new();
        let mut parts = whole.split('\x1b');
        text.push_str(parts.next().unwrap());
        for part in parts {
            let end = part
                .find(|letter: char| letter.is_ascii_alphabetic())
                .unwrap_or(0);
            text.push_str(part.get(end + 1..).unwrap_or_default());
        }
        text
    }

    pub(crate) fn wait_for(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let start = Instant::now();
        loop {
            let screen = self.last_screen();
            if holds(&screen) {
                return screen;
            }
            assert!(start.elapsed() < PATIENCE, "no {what}:\n{screen}");
            thread::sleep(Duration::from_millis(30));
        }
    }

    /// Waits for the end of the program, which has to leave the terminal as it was: on its own screen, and in these
    /// modes.
    pub(crate) fn end(&mut self, modes: LocalModes) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(start.elapsed() < PATIENCE, "placewright top does not end");
            thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{status}: {}", self.last_screen());
        assert_eq!(tcgetattr(&self.screen).unwrap().local_modes, modes);
        while !self.shown.lock().unwrap().ends_with(OWN_SCREEN) {
            assert!(
                start.elapsed() < PATIENCE,
                "the other screen is still shown"
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}
