//! Lists of pieces of clients' memory: one piece lies where it is named, longer lists in places made at the start.

use crate::bridge::record::{MAX_PIECES, Piece, Words};
use crate::malformed::{Malformed, error};
use std::cell::RefCell;
use std::rc::Rc;

/// Places for lists of more than one piece.
pub(super) struct Store {
    /// [`MAX_PIECES`] for each place; zeroes that nobody has touched take no memory.
    pieces: RefCell<Vec<[u64; 4]>>,
    free: RefCell<Vec<u32>>,
}

/// Bytes of a place.
pub(super) const LIST_BYTES: usize = MAX_PIECES * size_of::<[u64; 4]>() + size_of::<u32>();

impl Store {
    pub fn new(places: usize) -> Rc<Self> {
        Rc::new(Self {
            pieces: RefCell::new(vec![[0; 4]; places * MAX_PIECES]),
            free: RefCell::new((0..places as u32).rev().collect()),
        })
    }

    /// Places that are taken.
    pub fn taken(&self) -> usize {
        self.pieces.borrow().len() / MAX_PIECES - self.free.borrow().len()
    }

    /// Write down what `list` yields. None: a piece is missing, or there are more than may be, or no place is left.
    pub fn list(self: &Rc<Self>, list: impl Iterator<Item = Option<Piece>>) -> Option<Pieces> {
        let mut pieces = Pieces::default();
        for piece in list {
            pieces.push(self, piece?)?;
        }
        Some(pieces)
    }

    /// What a record lists.
    ///
    /// # Errors
    /// [`Words::piece_count`], [`Words::piece`]; no place is left.
    pub fn read(self: &Rc<Self>, words: &mut Words) -> Result<Pieces, Malformed> {
        let count = words.piece_count()?;
        let (mut pieces, mut total) = (Pieces::default(), 0);
        for _ in 0..count {
            let piece = words.piece(&mut total)?;
            pieces
                .push(self, piece)
                .ok_or(error!("a number of lists of segments", count))?;
        }
        Ok(pieces)
    }
}

/// A list.
#[derive(Default)]
pub(super) struct Pieces {
    /// The only one.
    first: Option<Piece>,
    /// Where all of them are, if there are more.
    place: Option<(Rc<Store>, u32)>,
    count: usize,
}

impl Pieces {
    fn push(&mut self, store: &Rc<Store>, piece: Piece) -> Option<()> {
        if self.count >= MAX_PIECES {
            return None;
        }
        if self.count == 0 {
            self.first = Some(piece);
        } else {
            if let Some(first) = self.first.take() {
                let place = store.free.borrow_mut().pop();
                let Some(place) = place else {
                    self.first = Some(first);
                    return None;
                };
                self.place = Some((Rc::clone(store), place));
                self.write(0, first);
            }
            self.write(self.count, piece);
        }
        self.count += 1;
        Some(())
    }

    fn write(&self, at: usize, piece: Piece) {
        if let Some((store, place)) = &self.place {
            store.pieces.borrow_mut()[*place as usize * MAX_PIECES + at] =
                [piece.address, piece.len, piece.position, piece.key];
        }
    }

    /// One of them.
    pub fn get(&self, at: usize) -> Option<Piece> {
        if at >= self.count {
            return None;
        }
        let Some((store, place)) = &self.place else {
            return self.first;
        };
        let [address, len, position, key] = store.pieces.borrow()[*place as usize * MAX_PIECES + at];
        Some(Piece {
            address,
            len,
            position,
            key,
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        (0..self.count).map_while(|at| self.get(at))
    }

    /// Bytes of all of them.
    pub fn len(&self) -> u64 {
        self.iter().map(|piece| piece.len).sum()
    }
}

impl Drop for Pieces {
    fn drop(&mut self) {
        if let Some((store, place)) = &self.place {
            store.free.borrow_mut().push(*place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_come_back() {
        let store = Store::new(2);
        let piece = |n| Piece {
            address: n,
            len: n,
            position: 0,
            key: 0,
        };
        let list = |count: u64| store.list((0..count).map(|n| Some(piece(n))));
        let (one, many) = (list(1).expect("one"), list(256).expect("many"));
        assert_eq!((one.len(), many.len(), store.taken()), (0, 255 * 128, 1));
        assert_eq!(many.get(200), Some(piece(200)));
        assert_eq!((many.get(256), one.get(1)), (None, None));
        assert!(list(257).is_none() && store.list([None].into_iter()).is_none());
        let other = list(2).expect("another");
        assert!(list(2).is_none() && list(1).is_some());
        drop((many, other));
        assert_eq!(store.taken(), 0);
    }
}
