package interop;

import java.util.function.Supplier;
import org.apache.kafka.common.utils.Time;

/** A wall clock that stands still until it is set: producer expiry and retention do not depend on today. */
final class StillClock implements Time {
    volatile long now;

    StillClock(long now) {
        this.now = now;
    }

    @Override
    public long milliseconds() {
        return now;
    }

    @Override
    public long nanoseconds() {
        return System.nanoTime();
    }

    @Override
    public void sleep(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void waitObject(Object monitor, Supplier<Boolean> condition, long deadline) {
        throw new UnsupportedOperationException();
    }
}
