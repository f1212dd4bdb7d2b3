//! One security's live orders: enough of a book to keep the generated flow possible, bounded and uncrossed.

/// The smallest price step: one cent, in 1/10000 dollar.
pub(super) const TICK: u32 = 100;
/// The fair price stays between 1 and 100,000 dollars.
const FAIR: std::ops::RangeInclusive<u32> = 10_000..=1_000_000_000;

/// One live order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Live {
    pub(super) reference: u64,
    pub(super) price: u32,
    pub(super) shares: u32,
}

/// The side of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Bid = 0,
    Ask = 1,
}

impl Side {
    pub(super) fn letter(self) -> u8 {
        match self {
            Self::Bid => b'B',
            Self::Ask => b'S',
        }
    }

    pub(super) fn other(self) -> Self {
        match self {
            Self::Bid => Self::Ask,
            Self::Ask => Self::Bid,
        }
    }
}

/// One side's live orders, unsorted; the best price and how many orders have it are kept.
#[derive(Clone, Debug)]
pub(super) struct Orders {
    side: Side,
    live: Vec<Live>,
    best: u32,
    at_best: u32,
}

impl Orders {
    fn new(side: Side) -> Self {
        Self { side, live: Vec::new(), best: 0, at_best: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.live.len()
    }

    /// The best price, if there is an order.
    pub(super) fn best(&self) -> Option<u32> {
        (self.at_best > 0).then_some(self.best)
    }

    fn better(&self, price: u32, than: u32) -> bool {
        match self.side {
            Side::Bid => price > than,
            Side::Ask => price < than,
        }
    }

    pub(super) fn add(&mut self, order: Live) {
        if self.at_best == 0 || self.better(order.price, self.best) {
            (self.best, self.at_best) = (order.price, 1);
        } else if order.price == self.best {
            self.at_best += 1;
        }
        self.live.push(order);
    }

    pub(super) fn get(&self, index: usize) -> Live {
        self.live[index]
    }

    /// Takes `shares`, less than all, off the order at `index`.
    pub(super) fn reduce(&mut self, index: usize, shares: u32) {
        self.live[index].shares -= shares;
    }

    pub(super) fn remove(&mut self, index: usize) -> Live {
        let order = self.live.swap_remove(index);
        if order.price == self.best {
            self.at_best -= 1;
            if self.at_best == 0 {
                self.find_best();
            }
        }
        order
    }

    fn find_best(&mut self) {
        let prices = self.live.iter().map(|order| order.price);
        let best = match self.side {
            Side::Bid => prices.max(),
            Side::Ask => prices.min(),
        };
        self.best = best.unwrap_or(0);
        self.at_best = self.live.iter().filter(|order| order.price == self.best).count() as u32;
    }

    /// The index of the order that an aggressor meets first: best price, then the oldest reference.
    pub(super) fn first_in_line(&self) -> Option<usize> {
        let best = self.best()?;
        let at_best = self.live.iter().enumerate().filter(|(_, order)| order.price == best);
        at_best.min_by_key(|(_, order)| order.reference).map(|(index, _)| index)
    }
}

/// A security: its symbol's number, a wandering fair price, and both sides' live orders.
#[derive(Clone, Debug)]
pub(super) struct Security {
    pub(super) fair: u32,
    /// Live orders a side at which removing outweighs adding.
    pub(super) target: usize,
    pub(super) sides: [Orders; 2],
}

impl Security {
    pub(super) fn new(fair: u32, target: usize) -> Self {
        Self { fair, target, sides: [Orders::new(Side::Bid), Orders::new(Side::Ask)] }
    }

    pub(super) fn orders(&mut self, side: Side) -> &mut Orders {
        &mut self.sides[side as usize]
    }

    /// Moves the fair price by one tick.
    pub(super) fn drift(&mut self, up: bool) {
        let fair = if up { self.fair + TICK } else { self.fair - TICK };
        self.fair = fair.clamp(*FAIR.start(), *FAIR.end());
    }

    /// The price of a new order, `depth` ticks behind the best that neither crosses the other side nor the fair price.
    pub(super) fn price(&self, side: Side, depth: u32) -> u32 {
        let opposite = self.sides[side.other() as usize].best();
        match side {
            Side::Bid => {
                let front = opposite.map_or(self.fair, |ask| ask.min(self.fair)) - TICK;
                front.saturating_sub(depth * TICK).max(TICK)
            }
            Side::Ask => opposite.map_or(self.fair, |bid| bid.max(self.fair)) + TICK + depth * TICK,
        }
    }

    /// The side that trades next: the one that the fair price has run over, else `otherwise`.
    pub(super) fn pressed(&self, otherwise: Side) -> Side {
        let [bids, asks] = &self.sides;
        if asks.best().is_some_and(|ask| ask < self.fair) {
            Side::Ask
        } else if bids.best().is_some_and(|bid| bid > self.fair) {
            Side::Bid
        } else {
            otherwise
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_follows_what_comes_and_goes() {
        let mut asks = Orders::new(Side::Ask);
        assert_eq!((asks.best(), asks.first_in_line()), (None, None));
        for (reference, price) in [(5, 300), (3, 200), (4, 200), (1, 400)] {
            asks.add(Live { reference, price, shares: 10 });
        }
        assert_eq!(asks.best(), Some(200));
        let first = asks.first_in_line().unwrap();
        assert_eq!(asks.remove(first).reference, 3);
        let second = asks.first_in_line().unwrap();
        assert_eq!(asks.remove(second).reference, 4);
        assert_eq!(asks.best(), Some(300));
    }

    #[test]
    fn new_orders_never_cross() {
        let mut security = Security::new(20_000, 10);
        security.orders(Side::Ask).add(Live { reference: 1, price: 15_000, shares: 1 });
        assert_eq!(security.price(Side::Bid, 0), 14_900);
        assert_eq!(security.pressed(Side::Bid), Side::Ask);
        assert_eq!(security.price(Side::Ask, 2), 20_300);
        security.orders(Side::Ask).add(Live { reference: 2, price: 2 * TICK, shares: 1 });
        assert_eq!(security.price(Side::Bid, 16), TICK);
    }
}
