package interop;

import java.io.BufferedInputStream;
import java.io.File;
import java.io.FileInputStream;
import java.io.FileNotFoundException;
import java.io.IOException;
import java.io.InputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.Files;
import java.nio.file.LinkOption;
import java.nio.file.Path;
import java.nio.file.StandardCopyOption;
import java.security.MessageDigest;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/** Directory trees: listing with sizes and hashes, copying, removing. The broker's .lock is never seen. */
final class Trees {
    private Trees() {
    }

    static List<Path> walk(File directory) throws IOException {
        try (Stream<Path> paths = Files.walk(directory.toPath())) {
            return paths.collect(Collectors.toList());
        }
    }

    static TreeMap<String, Map<String, Object>> list(File directory) throws Exception {
        TreeMap<String, Map<String, Object>> result = new TreeMap<>();
        for (Path path : walk(directory)) {
            String name = directory.toPath().relativize(path).toString();
            if (name.isEmpty() || name.equals(".lock")) continue;
            if (Files.isDirectory(path)) {
                if (name.contains("/")) result.put(name, Json.object("dir", true));
                continue;
            }
            result.put(name, describe(path.toFile()));
        }
        return result;
    }

    private static Map<String, Object> describe(File file) throws Exception {
        MessageDigest digest = MessageDigest.getInstance("SHA-256");
        long size = 0;
        try (InputStream in = new BufferedInputStream(new FileInputStream(file), 1 << 16)) {
            byte[] buffer = new byte[1 << 16];
            for (int n = in.read(buffer); n > 0; n = in.read(buffer)) {
                digest.update(buffer, 0, n);
                size += n;
            }
        } catch (FileNotFoundException | AccessDeniedException e) {
            return Json.object("unreadable", true);
        }
        StringBuilder hex = new StringBuilder();
        for (byte b : digest.digest()) hex.append(Character.forDigit(b >> 4 & 15, 16)).append(Character.forDigit(b & 15, 16));
        return Json.object("size", size, "sha256", hex.toString());
    }

    static void copy(File from, File to) throws IOException {
        for (Path path : walk(from)) {
            Path target = to.toPath().resolve(from.toPath().relativize(path).toString());
            if (Files.isSymbolicLink(path)) Files.copy(path, target, LinkOption.NOFOLLOW_LINKS);
            else if (Files.isDirectory(path)) Files.createDirectories(target);
            else if (!path.getFileName().toString().equals(".lock")) Files.copy(path, target, StandardCopyOption.REPLACE_EXISTING, StandardCopyOption.COPY_ATTRIBUTES);
        }
    }

    static void remove(File directory) throws IOException {
        List<Path> paths = walk(directory);
        paths.sort(Comparator.reverseOrder());
        for (Path path : paths) Files.deleteIfExists(path);
    }
}
