//@file >=4.0
package interop;

import java.io.File;
import java.util.Map;
import java.util.Properties;
import kafka.server.KafkaConfig;
import kafka.server.KafkaRaftServer;
import org.slf4j.LoggerFactory;

/**
 * What a KRaft broker does with the meta.properties of its only log directory before it opens a log: whether it goes on, and why not.
 * "node" is its configured id, "metadata" another directory, with a sound file, to be metadata.log.dir.  Changes both directories, as a broker does.
 */
final class Identity implements Operation {
    @Override
    public Object run(Request request) throws Throwable {
        File metadata = request.directory("metadata");
        File directory = request.directory("dir");
        Properties settings = new Properties();
        settings.setProperty("process.roles", "broker");
        settings.setProperty("node.id", request.text("node"));
        settings.setProperty("controller.quorum.bootstrap.servers", "localhost:1");
        settings.setProperty("controller.listener.names", "CONTROLLER");
        settings.setProperty("log.dirs", directory.getPath());
        settings.setProperty("metadata.log.dir", metadata.getPath());
        try {
            Object ensemble = KafkaRaftServer.initializeLogDirs(new KafkaConfig(settings, false), LoggerFactory.getLogger(Identity.class), "")._1();
            boolean online = ((org.apache.kafka.metadata.properties.MetaPropertiesEnsemble) ensemble).logDirProps().containsKey(directory.getPath());
            return Json.object("outcome", online ? "loaded" : "dir_offline");
        } catch (Exception e) {
            Map<String, Object> answer = Json.object("outcome", "start_fails");
            answer.put("exception", e.getClass().getName());
            answer.put("message", String.valueOf(e.getMessage()).replace(directory.getPath(), "DIR").replace(metadata.getPath(), "METADATA"));
            return answer;
        }
    }
}
