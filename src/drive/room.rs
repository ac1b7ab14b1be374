//! How many tasks SLURM takes where a limit on submitted jobs is felt: no call tells what is left of it.

/// So many times the known room is filled before more is tried: jobs of others that left have made some.
const FILLS: u32 = 5;

/// So many times longer than after other refusals is waited when none of ours has ended since.
pub(super) const LONGER: u64 = 5;

/// What refusals and acceptances have taught.
///
/// A refused array leaves an entry in the sweep log and costs an sbatch, so each answer is made the most of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Room {
    /// So many of ours have fitted. Some may have ended unseen, so it can be too many.
    fit: u32,
    /// So many did not fit; none: nothing was refused, or all that was known is out of date.
    unfit: Option<u32>,
    /// How often the room was filled since a refusal.
    fills: u32,
    felt: bool,
}

impl Room {
    /// Whether there is a limit at all.
    pub(super) fn is_felt(self) -> bool {
        self.felt
    }

    /// Whether what is known to fit is there already, so that only others can make room.
    pub(super) fn is_full(self, queued: u32) -> bool {
        queued > 0 && queued >= self.fit && self.unfit.is_some_and(|unfit| unfit <= queued + 1)
    }

    /// The largest array that is worth a try while `queued` tasks are queued or running; none: any.
    pub(super) fn fits(self, queued: u32) -> Option<u32> {
        let unfit = self.unfit?;
        let all = if self.fit + 1 < unfit {
            self.fit + (unfit - self.fit) / 2
        } else {
            self.fit + u32::from(self.fills >= FILLS)
        };
        Some(all.saturating_sub(queued).max(1))
    }

    /// Learns that an array was taken beside `queued` other tasks; answers whether there is no room for more now.
    pub(super) fn taken(&mut self, tasks: u32, queued: u32) -> bool {
        let all = queued.saturating_add(tasks);
        self.fit = self.fit.max(all);
        match self.unfit {
            Some(unfit) if all < unfit => {
                let full = all == self.fit && all + 1 == unfit;
                self.fills += u32::from(full);
                full
            }
            _ => {
                self.unfit = None;
                false
            }
        }
    }

    /// Learns that an array was refused beside `queued` other tasks; answers whether there is no room at all now.
    pub(super) fn refused(&mut self, tasks: u32, queued: u32) -> bool {
        let all = queued.saturating_add(tasks);
        let fit = if all <= self.fit { queued } else { self.fit };
        *self = Self { fit, unfit: Some(all), fills: 0, felt: true };
        tasks <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues what there is room for, as a watcher does between two waits: (tasks queued now, refusals).
    fn fill(room: &mut Room, mut queued: u32, wanted: u32, limit: u32) -> (u32, u32) {
        let mut refusals = 0;
        for _ in 0..100 {
            let tasks = (wanted - queued).min(room.fits(queued).unwrap_or(u32::MAX));
            let full = if queued + tasks > limit {
                refusals += 1;
                room.refused(tasks, queued)
            } else {
                queued += tasks;
                room.taken(tasks, queued - tasks)
            };
            if full || queued == wanted {
                return (queued, refusals);
            }
        }
        panic!("it does not end: {room:?}");
    }

    #[test]
    fn all_the_room_is_found_with_few_refusals() {
        for limit in 0..100 {
            let (queued, refusals) = fill(&mut Room::default(), 0, 1000, limit);
            assert_eq!(queued, limit);
            assert!(refusals <= 10, "{refusals} at a limit of {limit}");
        }
    }

    #[test]
    fn where_no_limit_is_felt_one_array_takes_all() {
        let mut room = Room::default();
        assert!(!room.is_full(50));
        assert_eq!(fill(&mut room, 0, 50, 50), (50, 0));
        assert!(!room.is_felt());
    }

    #[test]
    fn what_has_ended_is_replaced_with_hardly_a_refusal() {
        let mut room = Room::default();
        fill(&mut room, 0, 1000, 20);
        let mut refusals = 0;
        for round in 0..100 {
            let ended = 1 + round % 20;
            let (queued, refused) = fill(&mut room, 20 - ended, 1000, 20);
            assert_eq!(queued, 20);
            refusals += refused;
        }
        assert!((1..=20).contains(&refusals), "{refusals}");
    }

    #[test]
    fn room_that_others_leave_or_take_is_noticed() {
        let mut room = Room::default();
        fill(&mut room, 0, 1000, 20);
        assert!(room.is_full(20) && !room.is_full(19));
        assert_eq!(fill(&mut room, 20, 1000, 20), (20, 1), "one more is tried in vain");
        assert_eq!(fill(&mut room, 20, 1000, 300).0, 300);
        let (queued, refusals) = fill(&mut room, 250, 1000, 260);
        assert!(queued == 260 && refusals <= 6, "{refusals}");
        let filled = (0..10).map(|_| fill(&mut room, 250, 1000, 10_000).0);
        assert_eq!(filled.max(), Some(1000), "also while tasks of ours make room all the time");
    }

    #[test]
    fn tasks_that_end_between_two_looks_do_not_make_it_small_or_endless() {
        let (mut room, mut left, mut arrays) = (Room::default(), 50_u32, 0);
        while left > 0 {
            arrays += 1;
            assert!(arrays < 25, "{left} left: {room:?}");
            // The look shows 4 of which none is there any more.
            let tasks = room.fits(4).unwrap_or(left).min(left);
            if tasks > 20 {
                room.refused(tasks, 4);
            } else {
                room.taken(tasks, 4);
                left -= tasks;
            }
        }
    }
}
