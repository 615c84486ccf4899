//! Shows the figures on a terminal until the user ends it.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

use super::Sort;
use super::figures::Shared;
use super::keys::Key;
use super::source::Source;
use super::terminal::{Terminal, next_keys};
use super::view::View;
use super::{INTERVAL_MAX_S, INTERVAL_MIN_S};

/// The factor by which a key changes the interval.
const INTERVAL_STEP: f64 = 2.0;

/// Reads figures and shows them until a key or a signal ends it.
///
/// # Errors
///
/// The terminal cannot be used.
pub(super) async fn run(source: &Source, figures: &Shared, mut view: View) -> anyhow::Result<()> {
    let shown = tokio::select! {
        never = figures.follow_hosts(source) => match never {},
        never = figures.keep_reading_figures(source) => match never {},
        shown = show(figures, &mut view) => shown,
    };
    Ok(shown?)
}

/// Shows the figures, and does what keys and signals ask for.
async fn show(figures: &Shared, view: &mut View) -> io::Result<()> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut stop = signal(SignalKind::from_raw(Signal::TSTP.as_raw()))?;
    let mut terminal = Terminal::take()?;
    loop {
        let (columns, rows) = Terminal::size();
        Terminal::show(&view.screen(figures, rows), columns)?;
        tokio::select! {
            _ = interrupt.recv() => return Ok(()),
            _ = terminate.recv() => return Ok(()),
            _ = hang_up.recv() => return Ok(()),
            _ = resized.recv() => {}
            _ = stop.recv() => {
                terminal.leave();
                // The process goes on here when the shell continues it.
                kill_process(getpid(), Signal::STOP)?;
                terminal.take_again()?;
            }
            () = tokio::time::sleep(figures.interval.get()) => {}
            pressed = next_keys() => {
                for key in pressed {
                    if key == Key::Quit {
                        return Ok(());
                    }
                    press(key, figures, view, rows);
                }
            }
        }
    }
}

/// Does what a key asks for. `rows` is the height of the terminal.
fn press(key: Key, figures: &Shared, view: &mut View, rows: usize) {
    let fleet = figures.fleet.borrow();
    let count = fleet.hosts(view.cell.as_deref()).count();
    let last = count.saturating_sub(1);
    match key {
        Key::Quit => {}
        Key::NextSort => view.sort = step(view.sort, 1),
        Key::PreviousSort => view.sort = step(view.sort, Sort::ALL.len() - 1),
        Key::Reverse => view.is_reversed = !view.is_reversed,
        Key::NextCell => {
            let names = fleet.cell_names();
            let present = view.cell.as_deref();
            let position = names.iter().position(|name| Some(*name) == present);
            let next = position.map_or(0, |position| position + 1);
            view.cell = names.get(next).map(|name| (*name).to_owned());
            view.first_host = 0;
        }
        Key::AllCells => (view.cell, view.first_host) = (None, 0),
        Key::Faster => change_interval(figures, 1.0 / INTERVAL_STEP),
        Key::Slower => change_interval(figures, INTERVAL_STEP),
        Key::Up => view.first_host = view.first_host.saturating_sub(1),
        Key::Down => view.first_host = (view.first_host + 1).min(last),
        Key::PageUp => view.first_host = view.first_host.saturating_sub(rows / 2),
        Key::PageDown => view.first_host = (view.first_host + rows / 2).min(last),
        Key::Home => view.first_host = 0,
    }
}

/// What comes `by` steps after `sort`, where the first follows on the last.
fn step(sort: Sort, by: usize) -> Sort {
    let position = Sort::ALL.iter().position(|other| *other == sort);
    let next = position.unwrap_or(0) + by;
    Sort::ALL[next % Sort::ALL.len()]
}

fn change_interval(figures: &Shared, factor: f64) {
    let seconds = figures.interval.get().as_secs_f64() * factor;
    let seconds = seconds.clamp(INTERVAL_MIN_S, INTERVAL_MAX_S);
    figures
        .interval
        .set(std::time::Duration::from_secs_f64(seconds));
}
