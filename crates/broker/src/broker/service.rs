//! The broker as the service that a driver moves the bytes of.

use krarup_beanstalk::{InvalidRequest, LineError, Request, request, write};
use krarup_record::{LoopUse, Operation};
use krarup_service::{ClientId, Disconnect, Service, ThreadUse};
use krarup_units::{Outbox, Parsed, Stamp};

use super::{A_TURN, Broker, Discard, Ending, KEEP, Visit, goes_beside_puts, operation};
use crate::shared::SharedQueues;

/// The listener at which clients speak memcached's protocol; at the other they speak beanstalkd's.
pub const MEMCACHED: usize = 1;

impl Service for Broker {
    fn connected(&mut self, listener: usize, _now: Stamp) -> ClientId {
        if listener == MEMCACHED { self.opened_memcached() } else { self.opened() }
    }

    fn read(&mut self, id: ClientId, bytes: &[u8], received: Stamp, now: Stamp) -> usize {
        let mut done = 0;
        self.turn = A_TURN;
        loop {
            let rest = self.next_bytes(id, &bytes[done..], now);
            let Some(dialog) = self.dialogs[id as usize].as_mut() else { return bytes.len() };
            (dialog.stuck, dialog.turn_over) = (false, false);
            if dialog.quitting {
                done = bytes.len();
            }
            if dialog.quitting || rest.is_empty() {
                break;
            }
            if let Some(discard) = dialog.discard.take() {
                let gone = discard.left.min(rest.len() as u64);
                done += gone as usize;
                if gone < discard.left {
                    dialog.discard = Some(Discard { left: discard.left - gone, ..discard });
                } else {
                    self.complain(id, discard, received, gone as usize);
                }
                continue;
            }
            if dialog.endless {
                let Some(end) = memchr::memmem::find(rest, b"\r\n") else {
                    // The end of the line may be cut in two.
                    done += rest.len() - usize::from(rest.ends_with(b"\r"));
                    break;
                };
                dialog.endless = false;
                done += end + 2;
                self.complain(id, Discard::of_line(LineError::BadFormat, 0), received, end + 2);
                continue;
            }
            if dialog.is_held_back() || self.turn == 0 {
                self.hold_back(id);
                break;
            }
            self.turn -= 1;
            if dialog.memcached.is_some() {
                let used = self.memcached_bytes(id, rest, received, now);
                done += used;
                if used > 0 { continue } else { break }
            }
            match request::parse(rest, self.settings.largest) {
                Parsed::Incomplete { needed } => {
                    done += self.incomplete(id, rest, needed, received);
                    break;
                }
                Parsed::Invalid(InvalidRequest::Endless) => dialog.endless = true,
                Parsed::Invalid(InvalidRequest::Discard { why, discard }) => {
                    dialog.discard = Some(Discard::of_line(why, discard));
                }
                Parsed::Complete { message: request, used } => {
                    if self.shared.as_ref().is_some_and(|shared| !shared.may_go(id, &request)) {
                        dialog.stuck = true;
                        break;
                    }
                    if let Request::PutBatch(batch) = &request {
                        done += used;
                        self.put_batch(id, batch, used, received, now);
                        continue;
                    }
                    if dialog.put_with > Some(self.committed) && !goes_beside_puts(&request, &self.queues) {
                        dialog.stuck = true;
                        break;
                    }
                    if self.lacks(id, |queues| queues.lacks(id, &request, now)) {
                        break;
                    }
                    done += used;
                    let at = Visit::at(received, operation(request.verb()));
                    let row = Visit { bytes_in: used as u64, ..at };
                    self.carry_out(id, &request, row, now);
                }
            }
        }
        self.spread(now);
        done
    }

    fn needed(&self, _id: ClientId) -> usize {
        0
    }

    fn paused(&self, id: ClientId) -> bool {
        let dialog = self.dialogs[id as usize].as_ref();
        dialog.is_some_and(|dialog| dialog.turn_over || dialog.is_held_back())
    }

    fn ended(&mut self, id: ClientId, now: Stamp) {
        self.dialog(id).ended = true;
        self.give_up_waiting(id);
        self.spread(now);
        self.dirty.push(id);
    }

    fn dismissed(&mut self, id: ClientId, now: Stamp) {
        let dialog = self.dialog(id);
        dialog.quitting = true;
        dialog.stuck = false;
        self.give_up_waiting(id);
        self.spread(now);
        if let Some(word) = self.settings.final_reply {
            self.scratch.clear();
            write::line(&mut self.scratch, word);
            self.answer(id, None, None, Visit::at(now, Operation::Other));
        }
        self.dirty.push(id);
    }

    fn gone(&mut self, id: ClientId, now: Stamp) {
        let dialog = self.dialogs[id as usize].take().expect("he was connected");
        if dialog.runnable {
            self.runnable.retain(|&other| other != id);
        }
        self.unanswered -= dialog.slots.len() as u64;
        for slot in dialog.slots {
            let mut visit = slot.visit;
            visit.outcome = Ending::ClientGone;
            visit.replied = now;
            self.records.keep(&visit, slot.server, slot.ready);
        }
        for one in dialog.leaving {
            let mut visit = one.visit;
            visit.outcome = Ending::ClientGone;
            visit.replied = now;
            self.records.keep(&visit, one.server, one.ready);
        }
        if let Some(shared) = &mut self.shared {
            shared.close(id, now);
        }
        self.queues.close(id, now);
        self.spread(now);
    }

    fn output(&self, id: ClientId) -> &Outbox {
        &self.dialogs[id as usize].as_ref().expect("it is connected").outbox
    }

    fn written(&mut self, id: ClientId, count: usize, now: Stamp) {
        let dialog = self.dialogs[id as usize].as_mut().expect("he is connected");
        let full = dialog.is_full();
        dialog.outbox.advance(count);
        let position = dialog.outbox.position();
        while let Some(first) = dialog.leaving.front()
            && first.end <= position
        {
            let mut row = dialog.leaving.pop_front().expect("it is there");
            row.visit.replied = now;
            self.records.keep(&row.visit, row.server, row.ready);
        }
        dialog.outbox.shrink(KEEP);
        // What it has sent meanwhile was not read, be it the first of it.
        if (dialog.stuck || full) && !dialog.is_full() {
            self.make_runnable(id);
        }
    }

    fn finished(&self, id: ClientId) -> bool {
        self.dialogs[id as usize].as_ref().is_some_and(|dialog| {
            let done = dialog.quitting || (dialog.ended && !dialog.stuck);
            done && dialog.slots.is_empty() && dialog.outbox.is_empty()
        })
    }

    fn clients(&self) -> usize {
        self.queues.totals().connections as usize
    }

    fn deadline(&self) -> Option<Stamp> {
        self.queues.due().into_iter().chain(self.shared.as_ref().and_then(SharedQueues::due)).min()
    }

    fn tick(&mut self, now: Stamp) {
        self.queues.tick(now);
        if let Some(shared) = &mut self.shared {
            shared.tick(&self.queues, now);
        }
        self.spread(now);
    }

    fn runnable(&self) -> usize {
        self.runnable.len()
    }

    fn next_runnable(&mut self) -> Option<ClientId> {
        let id = self.runnable.pop_front()?;
        if let Some(dialog) = &mut self.dialogs[id as usize] {
            dialog.runnable = false;
        }
        Some(id)
    }

    fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        into.sort_unstable();
        into.dedup();
        into.retain(|&id| self.dialogs[id as usize].is_some());
    }

    fn loop_used(&mut self, used: ThreadUse, now: Stamp) {
        let ThreadUse { passes, processor, run_queue, machine_busy, machine_time, link_busy, link_time } =
            used;
        let clients = self.clients() as u32;
        let used = LoopUse {
            passes,
            processor,
            run_queue,
            clients,
            machine_busy,
            machine_time,
            link_busy,
            link_time,
        };
        self.records.loop_used(used, now);
    }

    fn has_silent_replies(&self, id: ClientId) -> bool {
        self.dialogs[id as usize].as_ref().is_some_and(|dialog| {
            dialog.outbox.is_empty()
                && dialog.leaving.front().is_some_and(|first| first.end <= dialog.outbox.position())
        })
    }

    /// The client hears nothing: the protocol has no word for it.
    fn turned_away(&mut self) -> &'static [u8] {
        self.clients_refused += 1;
        b""
    }

    fn disconnected(&mut self, why: Disconnect) {
        self.clients_cut += u64::from(why == Disconnect::Memory);
    }

    fn note_memory(&mut self, used: usize, short: bool) {
        self.buffers = (used, short);
    }

    /// Answers that wait for their commit hold memory, too.
    fn held(&self, id: ClientId) -> usize {
        let dialog = self.dialogs[id as usize].as_ref().expect("it is connected");
        dialog.outbox.held_by_waiting() + dialog.slot_bytes
    }

    fn take_growth(&mut self) -> usize {
        std::mem::take(&mut self.growth)
    }

    fn holds_lease(&self, id: ClientId, now: Stamp) -> bool {
        self.queues.holds_lease(id) || self.shared.as_ref().is_some_and(|shared| shared.holds_lease(id, now))
    }

    /// A client that waits for a message and vanishes must not be given one. What only waits for
    /// its next turn is carried out whatever becomes of it.
    fn heeds_end(&self, id: ClientId) -> bool {
        self.dialogs[id as usize].as_ref().is_none_or(|dialog| !dialog.turn_over)
    }
}
