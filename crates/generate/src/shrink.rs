//! From a program that fails to a short one that fails.

use crate::events::Plan;

impl Plan {
    /// Without these events, and without those that need what they make.
    pub fn without(&self, leave: &[usize]) -> Plan {
        let mut plan = self.clone();
        let mut gone: Vec<usize> = Vec::new();
        let mut kept = Vec::new();
        for (at, event) in self.events.iter().enumerate() {
            if at > 0 && (leave.contains(&at) || event.uses.iter().any(|comm| gone.contains(comm))) {
                gone.extend(&event.makes);
            } else {
                kept.push(event.clone());
            }
        }
        plan.events = kept;
        plan
    }

    /// A program as short as this search finds it that `fails` still, which is asked at most `tries` times.
    pub fn shrink(&self, tries: usize, mut fails: impl FnMut(&Plan) -> bool) -> Plan {
        let mut best = self.clone();
        let mut left = tries;
        let mut ask = |plan: &Plan| {
            left = left.saturating_sub(1);
            (left > 0).then(|| fails(plan))
        };
        let mut plain = best.clone();
        plain.plain = true;
        if !best.plain && ask(&plain) == Some(true) {
            best = plain;
        }
        // Halves, then quarters, and so on to single events.
        let mut size = best.events.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            let mut shorter = false;
            while at < best.events.len() {
                // From the end, since what comes later needs what is earlier.
                let end = best.events.len() - at;
                let leave: Vec<usize> = (end.saturating_sub(size)..end).collect();
                let candidate = best.without(&leave);
                if candidate.events.len() == best.events.len() {
                    at += size;
                    continue;
                }
                match ask(&candidate) {
                    None => return best,
                    Some(true) => {
                        best = candidate;
                        shorter = true;
                    }
                    Some(false) => at += size,
                }
            }
            if size == 1 && !shorter {
                break;
            }
            size = if size == 1 { 1 } else { size.div_ceil(2) };
        }
        best
    }
}
