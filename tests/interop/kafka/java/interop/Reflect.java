package interop;

import java.lang.reflect.AccessibleObject;
import java.lang.reflect.Constructor;
import java.lang.reflect.Executable;
import java.lang.reflect.Field;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;

/** Everything that moved between Kafka's versions is reached through here: by name and argument types, wherever it is declared. */
final class Reflect {
    private Reflect() {
    }

    static Class<?> type(String... names) {
        for (String name : names) {
            try {
                return Class.forName(name);
            } catch (ClassNotFoundException e) {
                // the next name
            }
        }
        throw new IllegalStateException("none of " + Arrays.toString(names) + " in Kafka " + Version.TEXT);
    }

    private static boolean fits(Class<?> type, Object argument) {
        if (argument == null) return !type.isPrimitive();
        if (type == int.class) return argument instanceof Integer;
        if (type == long.class) return argument instanceof Long || argument instanceof Integer;
        if (type == short.class) return argument instanceof Short;
        if (type == boolean.class) return argument instanceof Boolean;
        if (type == double.class) return argument instanceof Double;
        return type.isInstance(argument);
    }

    private static boolean fits(Executable executable, Object[] arguments) {
        Class<?>[] types = executable.getParameterTypes();
        if (types.length != arguments.length) return false;
        for (int i = 0; i < types.length; i++) if (!fits(types[i], arguments[i])) return false;
        return true;
    }

    private static Object[] widen(Executable executable, Object[] arguments) {
        Class<?>[] types = executable.getParameterTypes();
        Object[] result = arguments.clone();
        for (int i = 0; i < result.length; i++) if (types[i] == long.class && result[i] instanceof Integer) result[i] = ((Integer) result[i]).longValue();
        return result;
    }

    private static Object invoke(Method method, Object target, Object[] arguments) throws Throwable {
        try {
            return method.invoke(target, widen(method, arguments));
        } catch (InvocationTargetException e) {
            throw e.getCause();
        }
    }

    /** Calls a method by name; a Class as target means a static method. */
    static Object call(Object target, String name, Object... arguments) throws Throwable {
        Class<?> type = target instanceof Class ? (Class<?>) target : target.getClass();
        Object self = target instanceof Class ? null : target;
        for (Class<?> c = type; c != null; c = c.getSuperclass()) {
            for (Method method : c.getDeclaredMethods()) {
                if (!method.getName().equals(name) || method.isBridge() || !fits(method, arguments)) continue;
                method.setAccessible(true);
                return invoke(method, self, arguments);
            }
        }
        for (Method method : type.getMethods()) if (method.getName().equals(name) && fits(method, arguments)) return invoke(method, self, arguments);
        throw new NoSuchMethodException(type + "." + name + Arrays.toString(arguments));
    }

    /** The accessor of that name, or else the field. */
    static Object field(Object target, String name) throws Throwable {
        try {
            return call(target, name);
        } catch (NoSuchMethodException e) {
            Field field = target.getClass().getDeclaredField(name);
            ((AccessibleObject) field).setAccessible(true);
            return field.get(target);
        }
    }

    static Object make(Class<?> type, Object... arguments) throws Throwable {
        for (Constructor<?> constructor : type.getDeclaredConstructors()) {
            if (!fits(constructor, arguments)) continue;
            constructor.setAccessible(true);
            try {
                return constructor.newInstance(widen(constructor, arguments));
            } catch (InvocationTargetException e) {
                throw e.getCause();
            }
        }
        throw new NoSuchMethodException("no constructor of " + type + " takes " + Arrays.toString(arguments) + " but there are " + Arrays.toString(type.getDeclaredConstructors()));
    }

    static Object proxy(Class<?> type, InvocationHandler handler) {
        return Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, handler);
    }

    /** Any of Java's and Scala's collections, maps (their values) and options as a list. */
    @SuppressWarnings("unchecked")
    static List<Object> list(Object o) {
        if (o == null) return List.of();
        if (o instanceof Map) return new ArrayList<>(((Map<Object, Object>) o).values());
        if (o instanceof Collection) return new ArrayList<>((Collection<Object>) o);
        if (o instanceof Optional) return ((Optional<Object>) o).map(List::of).orElse(List.of());
        if (o instanceof scala.Option) return ((scala.Option<Object>) o).isEmpty() ? List.of() : List.of(((scala.Option<Object>) o).get());
        if (o instanceof scala.collection.Map) return new ArrayList<>(scala.jdk.javaapi.CollectionConverters.asJava((scala.collection.Map<Object, Object>) o).values());
        if (o instanceof scala.collection.Iterable) {
            List<Object> result = new ArrayList<>();
            scala.collection.Iterator<Object> iterator = ((scala.collection.Iterable<Object>) o).iterator();
            while (iterator.hasNext()) result.add(iterator.next());
            return result;
        }
        return List.of(o);
    }

    static Long optionalLong(Object o) {
        if (o instanceof OptionalLong) return ((OptionalLong) o).isPresent() ? ((OptionalLong) o).getAsLong() : null;
        List<Object> values = list(o);
        return values.isEmpty() ? null : ((Number) values.get(0)).longValue();
    }

    static <T> scala.collection.Seq<T> seq(List<T> list) {
        return scala.jdk.javaapi.CollectionConverters.asScala(list);
    }
}
