"""SHA-256 of the published files, by file name; data, no code."""

# Raw Planetoid files (kimiyoung/planetoid). The checksum of PubMed's published `allx` is not known to us.
PLANETOID: dict[str, str] = {
    "ind.cora.allx": "9419ba2f26f5c35243db64aba110e0f35a04851609e0dc5433450676ca6b8543",
    "ind.cora.ally": "2b998f5cc7fedc86e7f97ca2498f47a1ffc1462c29e2d578b23bf3f62b6e7d71",
    "ind.cora.graph": "58f13302f39dde8852dad6fe6d15b89b077b6d7f837626bce671ef80344b383d",
    "ind.cora.test.index": "297ce89af2b51a6a194181c7dbe1796c6a1cf9cd9349a88383b1b1e227867875",
    "ind.cora.tx": "b9afbaa4a400df991f6f02ef677e1e44da55ffc04801fd02f9e673987829226a",
    "ind.cora.ty": "41f5ac76596a1699cc33f53084a2419e92961c42bb75f36fc38e616d348532ad",
    "ind.cora.x": "23cfa55d91c6f624233f5eb7b6e3f141f1bd2b2ae39608a63cf5d084bb27baab",
    "ind.cora.y": "94465c14eb53e04ca262198dcbb2521ee8af60fb3f3d546cd6ca24a511b0e7d1",
    "ind.citeseer.allx": "2ac30345d95c9ec933a817ee0bdd6a5f077f8c184a20e696910192d534414668",
    "ind.citeseer.ally": "f704b2d986dde6c2669934de1f3ae5696a6cf9455c0f6b2646a2d135ea0a1c95",
    "ind.citeseer.graph": "d79a4ef9d3e7169aee8946145f6b7306e35bc79bffad26346cfb94e10e9912a7",
    "ind.citeseer.test.index": "2af990671580b6b2df5d158d1038f8292e30c9cd821b5453f399659b25b723d4",
    "ind.citeseer.tx": "539a8906a2da97628d212f2fdd668c109a8b3f0d36574b59e5d3fd5b5303da21",
    "ind.citeseer.ty": "55e5bd1ba1e733a04598753ad1a8d57957f4b8f89e74519f41f4f4938767e4ce",
    "ind.citeseer.x": "d20de19150741e555de0ed037195630fc194114ebc7fd72ced62810148aa22f6",
    "ind.citeseer.y": "8ba87e515d8e3ee3cf52f6d2c5b86aa73f11ecad825a808455209ec26cd54924",
    "ind.pubmed.ally": "0c37bbe3b5014ec365e9d393cf4791925e5ed94fb194305d74f064a8d7b50f0e",
    "ind.pubmed.graph": "5b89f0036ca22909471f1e6558eb42fa06e0c730a577bde5b058b40638f81dc9",
    "ind.pubmed.test.index": "b101d421688bbaecbd82e8a18f1e282378d6830f3a37666f28ebc47f844341b5",
    "ind.pubmed.tx": "4eb5f5d0f30f26497eb0ac6ac9719d09c67e284f1ed0385c93f3ef27a671da3d",
    "ind.pubmed.ty": "ee2e0d4819d9fbcc403689c3bf2e49face401b605932f093bc58ab6461130fdd",
    "ind.pubmed.x": "fbe9cb5c47200d1b7769a26e579be3b7130b556831f9d850e77c4c74f2599b33",
    "ind.pubmed.y": "e6c807633307a07ed659249006536a147c7999c797f11a2560752990181b41b3",
}

# The ten 48/32/20 splits (graphdml-uiuc-jlu/geom-gcn). Those of PubMed's splits are not known to us.
GEOM_GCN: dict[str, str] = {
    "cora_split_0.6_0.2_0.npz": "619931e6c3f0248bf9c7b6be24680a0a617bcfaba661cb0d7afaee8e18a74a51",
    "cora_split_0.6_0.2_1.npz": "d24be667034cb15a55bbf512dbae07b39c758eed66a9ba27106fa795422fe11c",
    "cora_split_0.6_0.2_2.npz": "811fb695c4c9ab0a53ab3a665bf4232652a08a6e38faac5b43a7da43a8454b74",
    "cora_split_0.6_0.2_3.npz": "9d9c19d88a689b76a4b97e8694ef8d20cb0f1b192bbd05a0d5649c91f0cb6ef4",
    "cora_split_0.6_0.2_4.npz": "3040b6bc0ddfff3757d55f514becf0b1b6b2e382114bfb0bc900dbcbb58fca17",
    "cora_split_0.6_0.2_5.npz": "52373862971060e366829930332acabaa90cc6f41019c52bf6c92e4c22f8f093",
    "cora_split_0.6_0.2_6.npz": "07847ea94e8b19970cf86731f19869aac0c56310d27f687d0feb9553d7525dd6",
    "cora_split_0.6_0.2_7.npz": "262573079c8b1f4bc043d32edd3d23a6c36f1d7258efe60c11a6197ba0eee560",
    "cora_split_0.6_0.2_8.npz": "d6c6a2163aeadd103ae386e800e473d2388da866f3f464199180d9b0e2f7d6cc",
    "cora_split_0.6_0.2_9.npz": "9d236d0cf723871d88dea567afe92d50c11d0ffba280349a5cc7f5f2ea42202f",
    "citeseer_split_0.6_0.2_0.npz": "31d483e4c9cbdd031c35e284fbda3935bfda6901b8618e4ef0381af5b9143582",
    "citeseer_split_0.6_0.2_1.npz": "1e02e3220676a90715b5a868b207dc19f49e5bc13ef1e8a8c8305fb46e028659",
    "citeseer_split_0.6_0.2_2.npz": "910ce9d1a9c12f2ce84486fa7d1953d560c2cf57f9e0c213a4ae362ca56bff77",
    "citeseer_split_0.6_0.2_3.npz": "e8c84d2e0099b3c0d692a68126c03370579f0cd83c0dab42b25a0fb3b94cb2c6",
    "citeseer_split_0.6_0.2_4.npz": "a45c9e6b4abe527499a1a1bf545063cdc910c82ef4676f1ef4e483bb77712c8e",
    "citeseer_split_0.6_0.2_5.npz": "fc0f6091daab2b0f37a3522dbc60052d9bce4209e7c06482f6beb61a4ed442b9",
    "citeseer_split_0.6_0.2_6.npz": "c99f610ff84bf5f5c3fe71b548c3cdf9c9bf02185d0152432b290877df1c4a3b",
    "citeseer_split_0.6_0.2_7.npz": "26bb7e5ea3aed014df5765af845fae70db9cdbb8875c46fc89cc4d6d042fb182",
    "citeseer_split_0.6_0.2_8.npz": "f8efadce7a3732ac39ec6625f591c9ed0b4222d95257f25f2a05ad5518e4a7eb",
    "citeseer_split_0.6_0.2_9.npz": "d9e586dad1886b3e1fdf3999140a192bb0cacea67c7849262ec862b8e7286cdf",
}

# yandex-research/heterophilous-graphs. Those of roman_empire, amazon_ratings and questions are not known to us.
HETEROPHILOUS: dict[str, str] = {
    "actor.npz": "c350eef06b2c2a9bf8218be2b57cac6d4003d0922eb597a039e9123f75817816",
    "chameleon.npz": "4c640bd2877fc4f9f101531e2f977bc16445a54e09a5cb01178df608e552f3fd",
    "chameleon_filtered.npz": "bf46f07e1fb5249280447e5fe3100f3e82fc4b93ad1e13ffcfdec924b6ac0bb5",
    "cornell.npz": "684c54ba3daa13b0ba1f04a3d6dd1b1175c1ae9bdeb982851fd4ff96d3aac298",
    "minesweeper.npz": "e664c8dacf1e8ac466c2c09ed4b237bd2c5541f47a6eae9c6092cb87f16412b3",
    "squirrel.npz": "d436e3b42c0546b105241c0ab0766097074e68e55f67b133eeb9b0162e55cbd9",
    "squirrel_filtered.npz": "f06370ffb3116c5de8b7a600005400b2293c025e0ce2f6916d8201a825505ac7",
    "texas.npz": "b164b99e6c3d43e4ab07488ec59bd8c815f90cbc1bd4cf425ce587d2b534d844",
    "tolokers.npz": "dacf3ac94cec53d03cd2adb5255c08b33dee1656c33ca8164a464bd9450a1667",
    "wisconsin.npz": "2543c89838cfc75f737f7c4664cc1d097f8268602c20b2d1bd4f21407df9c074",
}

# PubMed's `allx` rebuilt from `x`: the features of the training nodes, zeros for all others.
PUBMED_ALLX_REBUILT = "349f59d8356c405a4d3fa0e5a4debd39ed4bafd9f9c9d8c6f2e32b730b380717"
