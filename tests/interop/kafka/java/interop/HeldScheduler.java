package interop;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.Method;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;

/** Kafka's Scheduler, Java or Scala: keeps tasks; those without delay run in drain(), later ones (file deletion after 60 s) stay pending. */
final class HeldScheduler implements InvocationHandler {
    final Queue<Runnable> due = new ConcurrentLinkedQueue<>();
    final Queue<String> pending = new ConcurrentLinkedQueue<>();

    static ScheduledFuture<?> future() {
        return (ScheduledFuture<?>) Reflect.proxy(ScheduledFuture.class, (proxy, method, arguments) -> nothing(method.getReturnType()));
    }

    private static Object nothing(Class<?> type) {
        return type == boolean.class ? (Object) true : type == long.class ? (Object) 0L : type == int.class ? (Object) 0 : null;
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) {
        switch (method.getName()) {
            case "schedule$default$3": return 0L;
            case "schedule$default$4": return -1L;
            case "schedule$default$5": return TimeUnit.MILLISECONDS;
            case "isStarted": return true;
            case "hashCode": return 1;
            case "equals": return proxy == arguments[0];
            case "toString": return "HeldScheduler";
            case "schedule":
            case "scheduleOnce":
                long delay = arguments.length >= 3 ? ((Number) arguments[2]).longValue() : 0;
                Object task = arguments[1];
                Runnable runnable = task instanceof Runnable ? (Runnable) task : () -> ((scala.Function0<?>) task).apply();
                if (delay == 0 && !arguments[0].equals("PeriodicProducerExpirationCheck")) due.add(runnable);
                else pending.add((String) arguments[0]);
                return future();
            default: return null;
        }
    }

    void drain() {
        for (Runnable task = due.poll(); task != null; task = due.poll()) task.run();
    }
}
