package interop;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileDescriptor;
import java.io.FileOutputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;

/**
 * One JSON request per line of standard input, one JSON answer per line of standard output: {"id", "op", ...} -> {"id", "result"} or {"id", "error"}.
 * A request that runs over its timeout_s is answered with an error of class "hang", and the process ends with code 3.
 */
public final class Main {
    private static final int HUNG = 3;
    private static final long DEFAULT_TIMEOUT_SECONDS = 30;

    private Main() {
    }

    private static Operation operation(String name) throws ReflectiveOperationException {
        switch (name) {
            case "version": return request -> Json.object("kafka", Version.TEXT);
            case "recover": return new Recover();
            case "check": return new Check();
            case "read": return new ReadLogs();
            case "dump": return new Dump();
            case "assign": return new Assign();
            case "client": return new Client();
            case "batches": return new DecodeBatches();
            case "convert": return optional("ConvertBatches");
            case "clean": return optional("Clean");
            case "generate": return optional("Generate");
            case "image": return optional("Image");
            case "identity": return optional("Identity");
            case "accumulate": return optional("Accumulate");
            case "quorum": return optional("Quorum");
            default: throw new IllegalArgumentException("unknown operation " + name);
        }
    }

    /** An operation that is compiled only where Kafka has the classes for it. */
    private static Operation optional(String type) throws ReflectiveOperationException {
        try {
            return (Operation) Class.forName("interop." + type).getDeclaredConstructor().newInstance();
        } catch (ClassNotFoundException e) {
            throw new UnsupportedOperationException(type + " is not available with Kafka " + Version.TEXT);
        }
    }

    private static Map<String, Object> answer(Request request, ExecutorService threads) throws InterruptedException {
        long seconds = request.number("timeout_s", DEFAULT_TIMEOUT_SECONDS);
        Future<Object> running = threads.submit(() -> {
            try {
                return Json.object("result", operation(request.text("op")).run(request));
            } catch (Throwable t) {
                return Json.object("error", Failure.describe(t, request.has("dir") ? new File(request.text("dir")) : null));
            }
        });
        try {
            @SuppressWarnings("unchecked") Map<String, Object> result = (Map<String, Object>) running.get(seconds, TimeUnit.SECONDS);
            return result;
        } catch (TimeoutException e) {
            return Json.object("error", Json.object("class", "hang", "message", "no answer within " + seconds + " s"));
        } catch (ExecutionException e) {
            return Json.object("error", Failure.describe(e.getCause(), null));
        }
    }

    public static void main(String[] arguments) throws Exception {
        PrintStream answers = new PrintStream(new FileOutputStream(FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        ExecutorService threads = Executors.newCachedThreadPool(task -> {
            Thread thread = new Thread(task, "request");
            thread.setDaemon(true);
            return thread;
        });
        BufferedReader requests = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = requests.readLine(); line != null; line = requests.readLine()) {
            if (line.isBlank()) continue;
            @SuppressWarnings("unchecked") Request request = new Request(Json.MAPPER.readValue(line, Map.class));
            Map<String, Object> answer = answer(request, threads);
            answer.put("id", request.get("id"));
            answers.println(Json.MAPPER.writeValueAsString(answer));
            answers.flush();
            Object error = answer.get("error");
            if (error != null && "hang".equals(((Map<?, ?>) error).get("class"))) Runtime.getRuntime().halt(HUNG);
        }
        Runtime.getRuntime().halt(0);
    }
}
