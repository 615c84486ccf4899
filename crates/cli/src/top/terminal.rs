//! The terminal: taken over while the figures are shown, and left as it was.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::Duration;

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex, Termios};

use super::keys::{self, Key};
use super::line::Line;

/// Switches to the terminal's alternate screen, hides the cursor, and clears the screen. `LEAVE` switches back, so that
/// what was on the terminal before is there again.
const ENTER: &str = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
const LEAVE: &str = "\x1b[0m\x1b[?25h\x1b[?1049l";
/// The interval at which the keyboard is read.
const KEY_CHECK: Duration = Duration::from_millis(50);
/// The size of a terminal that does not say how large it is.
const USUAL_SIZE: (usize, usize) = (80, 24);

/// The terminal while it shows figures. Dropping this, also by a panic, leaves the terminal as it was before.
pub(super) struct Terminal {
    /// The terminal's attributes before it was taken over; `None` if standard input is no terminal.
    before: Option<Termios>,
    is_taken: bool,
}

impl Terminal {
    /// Takes the terminal over.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub(super) fn take() -> io::Result<Self> {
        let before = match io::stdin().is_terminal() {
            true => Some(termios::tcgetattr(io::stdin())?),
            false => None,
        };
        let mut terminal = Self {
            before,
            is_taken: false,
        };
        terminal.take_again()?;
        Ok(terminal)
    }

    /// Takes the terminal over again, after [`Self::leave`].
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub(super) fn take_again(&mut self) -> io::Result<()> {
        if let Some(before) = &self.before {
            let mut attributes = before.clone();
            // Keys come at once and are not shown. Ctrl-C and Ctrl-Z still make signals.
            attributes.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
            // A read returns at once, even if no key was pressed.
            attributes.special_codes[SpecialCodeIndex::VMIN] = 0;
            attributes.special_codes[SpecialCodeIndex::VTIME] = 0;
            termios::tcsetattr(io::stdin(), OptionalActions::Drain, &attributes)?;
        }
        self.is_taken = true;
        write(ENTER)
    }

    /// Leaves the terminal as it was before.
    pub(super) fn leave(&mut self) {
        if !std::mem::take(&mut self.is_taken) {
            return;
        }
        // Errors mean that the terminal is gone.
        let _ = write(LEAVE);
        if let Some(before) = &self.before {
            let _ = termios::tcsetattr(io::stdin(), OptionalActions::Drain, before);
        }
    }

    /// How many columns and rows there are.
    pub(super) fn size() -> (usize, usize) {
        let size = termios::tcgetwinsize(io::stdout());
        match size {
            Ok(size) if size.ws_col > 0 && size.ws_row > 0 => {
                (size.ws_col.into(), size.ws_row.into())
            }
            _ => USUAL_SIZE,
        }
    }

    /// Shows lines in place of what was shown before.
    ///
    /// # Errors
    ///
    /// The terminal cannot be written.
    pub(super) fn show(lines: &[Line], columns: usize) -> io::Result<()> {
        // All is written in one piece, and each line over the old line in its place, so that nothing flickers.
        let mut out = String::from("\x1b[H");
        for (number, line) in lines.iter().enumerate() {
            if number > 0 {
                out.push_str("\r\n");
            }
            line.write_to(&mut out, columns);
            out.push_str("\x1b[K");
        }
        out.push_str("\x1b[J");
        write(&out)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.leave();
    }
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Waits for keys of standard input; for ever if it is no terminal. The terminal has to be taken over before: only then
/// does a read return at once, even if no key was pressed.
pub(super) async fn next_keys() -> Vec<Key> {
    if !io::stdin().is_terminal() {
        return std::future::pending().await;
    }
    loop {
        let mut bytes = [0; 256];
        let read = rustix::io::read(io::stdin(), &mut bytes);
        // An error means that the terminal is gone. Then SIGHUP ends the program.
        let keys = keys::parse(&bytes[..read.unwrap_or(0)]);
        if !keys.is_empty() {
            return keys;
        }
        tokio::time::sleep(KEY_CHECK).await;
    }
}
