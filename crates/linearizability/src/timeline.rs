//! The calls and returns of a history in the order of time, as a list from which operations are taken out and into
//! which they are put back, each in constant time.

/// An event of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Call(usize),
    Return(usize),
}

/// The end of the list, and the place before its first event.
pub(crate) const END: usize = 0;

#[derive(Debug)]
struct Node {
    event: Event,
    previous: usize,
    next: usize,
}

/// A doubly linked list of events. Node 0 is the end and the beginning.
#[derive(Debug)]
pub(crate) struct Timeline {
    nodes: Vec<Node>,
    /// The nodes of each operation: its call, and its return if there is one.
    nodes_of: Vec<(usize, Option<usize>)>,
}

impl Timeline {
    /// Puts operations in order; each is given by the times of its call and its return.
    ///
    /// Of events at the same time, calls come first, so that operations that touch in time count as concurrent.
    pub(crate) fn new(times: &[(u64, Option<u64>)]) -> Self {
        let mut events = Vec::with_capacity(2 * times.len());
        for (number, (call, answer)) in times.iter().enumerate() {
            events.push((*call, 0, Event::Call(number)));
            // A clock that stands still must not let an operation return before it is called.
            events.extend(answer.map(|answer| (answer.max(*call), 1, Event::Return(number))));
        }
        events.sort_by_key(|(time, order, _)| (*time, *order));
        // The event of the end belongs to no operation, and is never read.
        let mut nodes = vec![Node {
            event: Event::Call(usize::MAX),
            previous: events.len(),
            next: usize::from(!events.is_empty()),
        }];
        let mut nodes_of = vec![(0, None); times.len()];
        let count = events.len();
        for (index, (_, _, event)) in events.into_iter().enumerate() {
            let node = index + 1;
            nodes.push(Node {
                event,
                previous: index,
                next: if node == count { END } else { node + 1 },
            });
            match event {
                Event::Call(number) => nodes_of[number].0 = node,
                Event::Return(number) => nodes_of[number].1 = Some(node),
            }
        }
        Self { nodes, nodes_of }
    }

    /// The first event, or [`END`].
    pub(crate) fn first(&self) -> usize {
        self.nodes[END].next
    }

    pub(crate) fn next(&self, node: usize) -> usize {
        self.nodes[node].next
    }

    pub(crate) fn event(&self, node: usize) -> Event {
        self.nodes[node].event
    }

    /// The event of an operation's call.
    pub(crate) fn call(&self, number: usize) -> usize {
        self.nodes_of[number].0
    }

    /// Takes the events of an operation out.
    pub(crate) fn take_out(&mut self, number: usize) {
        let (call, answer) = self.nodes_of[number];
        self.unlink(call);
        if let Some(answer) = answer {
            self.unlink(answer);
        }
    }

    /// Puts the events of an operation back. It has to be the one that was taken out last.
    pub(crate) fn put_back(&mut self, number: usize) {
        let (call, answer) = self.nodes_of[number];
        if let Some(answer) = answer {
            self.link(answer);
        }
        self.link(call);
    }

    fn unlink(&mut self, node: usize) {
        let Node { previous, next, .. } = self.nodes[node];
        self.nodes[previous].next = next;
        self.nodes[next].previous = previous;
    }

    fn link(&mut self, node: usize) {
        let Node { previous, next, .. } = self.nodes[node];
        self.nodes[previous].next = node;
        self.nodes[next].previous = node;
    }
}
