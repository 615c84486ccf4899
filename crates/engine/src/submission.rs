//! Submitted commands, from their callers to their answers.

use tokio::sync::oneshot;

use crate::Machine;
use crate::envelope::CommandId;
use crate::error::SubmitError;

/// The answer to a command: the machine's outcome or refusal, or the reason why there is neither.
pub(crate) type Answer<M> =
    Result<Result<<M as Machine>::Outcome, <M as Machine>::Refusal>, SubmitError>;

/// A submitted command with the channel for its reply.
pub(crate) struct Submission<M: Machine> {
    /// In a box, because a submission is moved several times on its way to the answer.
    pub(crate) command: Box<M::Command>,
    pub(crate) reply: oneshot::Sender<CommandReply<M>>,
    /// The command's id if another replica has handed it over.
    pub(crate) forwarded: Option<CommandId>,
    /// [`State::rollbacks`](crate::shared::State::rollbacks) from the time of the reading that the command was made
    /// from: it is decided only while the number is the same. `None` if the command may be decided on any state.
    pub(crate) made_after_rollbacks: Option<u64>,
}

impl<M: Machine> Submission<M> {
    /// Answers a command with an error. Sending the answer fails if the caller has stopped waiting.
    pub(crate) fn fail(self, error: SubmitError) {
        let reply = CommandReply {
            answer: Err(error),
            sequence: None,
            depends_on: 0,
            command: self.command,
        };
        let _ = self.reply.send(reply);
    }
}

/// The reply to a submitted command.
pub(crate) struct CommandReply<M: Machine> {
    pub(crate) answer: Answer<M>,
    /// The entry of the journal that the command made, if it changed something.
    pub(crate) sequence: Option<u64>,
    /// The last entry that was applied when the command had been decided; 0 if it was not decided.
    pub(crate) depends_on: u64,
    /// The command, which goes back to its caller. If it made no entry, it may have to be decided anew. Otherwise the
    /// caller frees its memory: it has allocated that memory, and all callers would have to wait while the writer frees
    /// it.
    pub(crate) command: Box<M::Command>,
}

impl<M: Machine> CommandReply<M> {
    /// Whether the command was decided and made no entry.
    pub(crate) fn is_without_entry(&self) -> bool {
        self.answer.is_ok() && self.sequence.is_none()
    }
}

/// A decided command that waits until the state on which it was decided is durable.
pub(crate) struct Decided<M: Machine> {
    pub(crate) submission: Submission<M>,
    pub(crate) result: Result<M::Outcome, M::Refusal>,
    /// The last entry that was applied when this command had been decided. It has to be durable before the
    /// answer.
    pub(crate) depends_on: u64,
    /// Whether this command made the entry `depends_on`.
    pub(crate) has_made_entry: bool,
}

impl<M: Machine> Decided<M> {
    pub(crate) fn answer(self) {
        let Submission { command, reply, .. } = self.submission;
        // Sending fails if the caller has stopped waiting.
        let _ = reply.send(CommandReply {
            answer: Ok(self.result),
            sequence: self.has_made_entry.then_some(self.depends_on),
            depends_on: self.depends_on,
            command,
        });
    }
}
