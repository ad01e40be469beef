package interop;

import org.apache.kafka.common.utils.AppInfoParser;            //@ <4.4
import org.apache.kafka.common.utils.internals.AppInfoParser;  //@ >=4.4

/** Which Kafka is on the class path. */
final class Version {
    static final String TEXT = AppInfoParser.getVersion();
    static final int MAJOR = Integer.parseInt(TEXT.substring(0, TEXT.indexOf('.')));

    private Version() {
    }
}
