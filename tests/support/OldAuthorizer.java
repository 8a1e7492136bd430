package tests.support;

import org.apache.kafka.common.acl.AclOperation;
import org.apache.kafka.common.resource.ResourceType;
import org.apache.kafka.metadata.authorizer.StandardAuthorizer;
import org.apache.kafka.server.authorizer.AuthorizableRequestContext;
import org.apache.kafka.server.authorizer.AuthorizationResult;

/**
 * Answers as brokers before 2.8 (KIP-679): the right to write to a topic does not let anybody have a
 * producer id, only IDEMPOTENT_WRITE on the cluster does. It is the agent of its own jar, too, which
 * puts that on the broker's class path.
 */
public class OldAuthorizer extends StandardAuthorizer {
    public static void premain(String argument) {
    }

    @Override
    public AuthorizationResult authorizeByResourceType(
            AuthorizableRequestContext context, AclOperation operation, ResourceType type) {
        return AuthorizationResult.DENIED;
    }
}
